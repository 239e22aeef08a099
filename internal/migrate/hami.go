package migrate

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// HAMi's configuration: values of its chart, device-config.yaml and the device plugin's config.json.
// Its device plugin stays beside an agent that observes, or the agent takes its place (Options.Serve).

// hamiNames are the resources of NVIDIA's cards, by field of HAMi's values and device ConfigMap; they are fixed here.
var hamiNames = map[string]string{
	"resourceName": "nvidia.com/gpu", "resourceMem": "nvidia.com/gpumem", "resourceMemPercentage": "nvidia.com/gpumem-percentage",
	"resourceCores": "nvidia.com/gpucores", "resourcePriority": "nvidia.com/priority",
	"resourceCountName": "nvidia.com/gpu", "resourceMemoryName": "nvidia.com/gpumem", "resourceMemoryPercentageName": "nvidia.com/gpumem-percentage",
	"resourceCoreName": "nvidia.com/gpucores", "resourcePriorityName": "nvidia.com/priority",
}

// hamiVendors are devices of HAMi for which Tangram has no words.
const hamiVendors = "cambricon|mlu|hygon|hcu|dcu|metax|enflame|mthreads|iluvatar|iluvatars|kunlun|awsneuron|vastai|biren|amd"

// Sentences of several rules.
const (
	hamiNoVendor = "no words for shares of these devices; kube-scheduler counts what their own device plugin publishes, one by one"
	hamiProgram  = "about HAMi's own program; the chart of gpu-scheduler has values of its own (charts/gpu-scheduler/README.md)"
	hamiStays    = "while HAMi's device plugin stays (agent.mode: observe) it stays there; --serve translates it"
)

// hamiRules: paths of the chart's values; plugin/NAME for settings of the device plugin,
// nvidia/NAME for those of NVIDIA's devices, devices/vnpus/NAME for Huawei's.
var hamiRules = []rule{
	{"schedulerName", "", Set, "profiles[].schedulerName=", "a profile of that name"},
	{"scheduler/defaultSchedulerPolicy/nodeSchedulerPolicy", "binpack|spread", Set, "GPUScore.placement=$", "for nodes and devices; the annotations hami.io/node-scheduler-policy and hami.io/gpu-scheduler-policy of pods say otherwise"},
	{"scheduler/defaultSchedulerPolicy/gpuSchedulerPolicy", "binpack|spread", Differs, "hami.io/gpu-scheduler-policy", "one default for nodes and devices, the one of nodeSchedulerPolicy; where devices must be filled otherwise, annotate the pods"},
	{"scheduler/defaultSchedulerPolicy/gpuSchedulerPolicy", "topology-aware", Always, "", "devices that are linked go first where links are known"},
	{"scheduler/forceOverwriteDefaultScheduler|admissionWebhook", "", None, "", "no webhook: pods name the scheduler themselves (schedulerName: hami-scheduler or gpu-scheduler)"},
	{"scheduler/nodeLockExpire|nodeLockRetryTimeout", "", Always, "", "no node lock is needed: the record is written with the Binding"},
	{"scheduler|nvidia/overwriteEnv", "", Always, "", "containers without a GPU see none where the agent serves with cdi-cri"},
	{"devicePlugin/enabled", "", Differs, "agent.mode", "observe beside HAMi's device plugin, serve in its place (--serve)"},
	{"devicePlugin/nodeConfiguration/externalConfigName", "", None, "", "give that ConfigMap to tangram migrate as well"},
	{"devicePlugin/nvidiaNodeSelector", "", Differs, "agent.nodeSelector", "agents go to nodes with nvidia.com/gpu.present=true and the like; label others tangram.dev/gpu-agent=true"},
	{"devicePlugin/tolerations", "", Differs, "agent.tolerations", "nvidia.com/gpu is tolerated by default"},
	{"devices/ascend|vnpus/hamiVnpuCore", "", Differs, "huawei.com/vnpu-mode: hami-core", "annotation of pods that want shares of any size"},
	{"devices/ascend/*", "", Always, "", "the Ascend device plugin stays; huawei.com/Ascend... is read as it is"},
	{"devices/" + hamiVendors, "", None, "", hamiNoVendor},
	{hamiVendors, "", None, "", hamiNoVendor},
	{strings.ReplaceAll(hamiVendors, "|", "Resource*|") + "Resource*|metaxs*", "", None, "", hamiNoVendor},

	{"plugin/deviceSplitCount", "1..1", Always, "", "cards are not shared"},
	{"plugin/deviceSplitCount", "2..48", Set, "agent.extraArgs=--shares-per-gpu=$", ""},
	{"plugin/deviceSplitCount", "49..100000", Differs, "agent.extraArgs: --shares-per-gpu=48", "at most 48 shares of a card where the agent serves"},
	{"plugin/deviceMemoryScaling|deviceCoreScaling", "1|1.0", Always, "", "memory and compute of a card add up to the card's at most"},
	{"plugin/deviceMemoryScaling|deviceCoreScaling", "number", None, "", "nothing is sold twice: ask for less, or stay with HAMi's device plugin, whose registered amounts are read as they are"},
	{"plugin/migStrategy", "none|single|mixed", Set, "agent.config.flags.migStrategy=", ""},
	{"plugin/passDeviceSpecsEnabled", "bool", Set, "agent.config.flags.plugin.passDeviceSpecs=", ""},
	{"plugin/deviceListStrategy", "", Differs, "agent.config.flags.plugin.deviceListStrategy", "cdi-cri, which shares by amount need; a container runtime with CDI"},
	{"plugin/nvidiaDriverRoot", "auto", Differs, "agent.driverRoot", "/ by default; /run/nvidia/driver where the GPU operator installs the driver"},
	{"plugin/nvidiaDriverRoot", "", Set, "agent.driverRoot=", ""},
	{"plugin/disableCoreLimit", "true", None, "", "compute is limited for containers that ask for a part of it; leave nvidia.com/gpucores out for no limit"},
	{"plugin/disableCoreLimit", "", Always, "", ""},
	{"plugin/preConfiguredDeviceMemory", "0..0", Always, "", "the driver says it"},
	{"plugin/preConfiguredDeviceMemory", "1..16777216", None, "", "memory comes from the driver; where that has none, stay with HAMi's device plugin"},
	{"plugin/enableNumaTopology|enableGetPreferredAllocation|numaRefit", "", Always, "", "kubelet is told NUMA nodes, and which devices are preferred: those of the record"},
	{"plugin/runtimeClassName", "", Always, "", "not needed with cdi-cri; a pod's own runtimeClassName stays"},
	{"plugin/libPath", "", Set, "agent.extraArgs=--hami-library-dir=$;agent.extraArgs=--isolation=hami", ""},
	{"plugin/pluginPath", "", Differs, "agent.kubeletDir", "the folder of kubelet, without device-plugins"},
	{"plugin/nvidiaHookPath|gdrcopyEnabled|gdsEnabled|mofedEnabled|hostPIDBroker", "", None, "", "no such setting"},
	{"plugin/operatingMode", "", Always, "", "the mode that the node registers counts; nvidia.com/vgpu-mode asks for it"},

	{"nvidia/defaultMemory|defaultCores", "0..0", Always, "", "left out: all of the card's memory, and the compute that other shares leave"},
	{"nvidia/defaultMemory|defaultCores", "1..16777216", None, "", "a pod gets what it asks for: write nvidia.com/gpumem or nvidia.com/gpucores in manifests"},
	{"nvidia/defaultGPUNum", "0..1", Always, "", "one card where only memory or compute is asked for"},
	{"nvidia/defaultGPUNum", "2..1024", None, "", "one card where only memory or compute is asked for: write nvidia.com/gpu in manifests"},
	{"nvidia/memoryFactor", "0..1", Always, "", ""},
	{"nvidia/memoryFactor", "2..1048576", None, "", "nvidia.com/gpumem is in MiB: multiply the amounts in manifests"},
	{"nvidia/gpuCorePolicy", "|default", Always, "", ""},
	{"nvidia/gpuCorePolicy", "", None, "", "compute is limited for containers that ask for a part of it, and for no others"},
	{"nvidia/libCudaLogLevel", "", None, "", "set LIBCUDA_LOG_LEVEL in the container"},
	{"nvidia/knownMigGeometries|migProfileAllowlist", "", Always, "", "not needed: MIG profiles come from the driver, or from Tangram's own table, and placements are computed"},

	{"global|nameOverride|fullnameOverride|namespaceOverride|platform|openshift|selinux|podSecurityPolicy|mockDevicePlugin|legacyMetrics|prometheus|version|imagePullSecrets", "", None, "", hamiProgram},
	{"scheduler/nodeName|nodeLabelSelector|nodeSelector|affinity|tolerations|podAnnotations|podDisruptionBudget|service*|networkPolicy|hostNetwork|resources", "", None, "", hamiProgram},
	{"scheduler/metricsBindAddress|livenessProbe|leaderElect|replicas|kubeScheduler|extender|certManager|patch|kubeQPS|kubeBurst|kubeTimeout|extenderHTTPTimeout|extraArgs", "", None, "", hamiProgram},
	{"devicePlugin/image*|monitor|extraArgs|extraEnvs|service*|podAnnotations|hostPID|hostNetwork|securityContext|updateStrategy|resources|gpuOperatorToolkitReady|createRuntimeClass", "", None, "", hamiProgram},
}

// hamiSection begins the reading of one of HAMi's files.
func (b *builder) hamiSection() {
	b.Result.profile(names.HAMiSchedulerName)
	if b.serve {
		setAt(&b.Result.values, "serve", "agent", "mode")
	}
}

// hamiValues reads values of HAMi's chart.
func (b *builder) hamiValues(n node) {
	b.hamiSection()
	b.walk(n, "", "not a value of HAMi's chart", func(path string, n node) bool {
		rest, plugin := strings.CutPrefix(path, "devicePlugin/")
		switch {
		case hamiNames[path] != "":
			b.hamiName(n, path)
		case path == "device-config/content":
			b.inside(n, b.hamiDevices)
		case path == "devicePlugin/nodeConfiguration/config":
			b.inside(n, b.hamiNodes)
		case path == "devices/nvidia":
			b.hamiNVIDIA(n)
		default:
			return plugin && b.judge("plugin/"+rest, of(n))
		}
		return true
	})
}

// inside reads the documents that a text holds.
func (b *builder) inside(n node, read func(node)) {
	docs, problems := n.Inside()
	b.Problems = append(b.Problems, problems...)
	for _, d := range docs {
		read(d)
	}
}

// hamiName is a name of a resource.
func (b *builder) hamiName(n node, field string) {
	w, _ := dialect.FindWord(dialect.Resource, n.Text())
	switch want := hamiNames[field]; {
	case n.Text() != want:
		b.row(of(n), answer{None, "", "the name is fixed: write " + want + " in manifests"})
	case w.Effect == dialect.Ignores:
		b.row(of(n), answer{None, "", w.Note})
	default:
		b.row(of(n), answer{Always, "", "read as it is"})
	}
}

// hamiNVIDIA are settings of NVIDIA's devices.
func (b *builder) hamiNVIDIA(n node) {
	b.walk(n, "nvidia", "not a field of NVIDIA's devices in HAMi's configuration", func(path string, n node) bool {
		field := strings.TrimPrefix(path, "nvidia/")
		if hamiNames[field] != "" {
			b.hamiName(n, field)
			return true
		}
		return b.judge("plugin/"+field, of(n))
	})
}

// hamiDevices reads device-config.yaml.
func (b *builder) hamiDevices(n node) {
	b.hamiSection()
	for _, e := range n.Entries() {
		switch {
		case e.Key == "nvidia":
			b.hamiNVIDIA(e.Node)
		case e.Key == "vnpus":
			b.hamiAscend(e.Node)
		case slices.Contains(strings.Split(hamiVendors, "|"), e.Key):
			b.row(at{e.Node, e.Path, "{...}"}, answer{None, "", hamiNoVendor})
		default:
			b.unknown(e.Node, "not a vendor of HAMi's device configuration")
		}
	}
}

// hamiAscend compares templates with those that are known.
func (b *builder) hamiAscend(n node) {
	configs := n
	if n.IsMap() {
		configs = n.Get("configs")
	}
	for _, e := range n.Entries() {
		if e.Key != "configs" && !b.judge("devices/vnpus/"+e.Key, of(e.Node)) {
			b.unknown(e.Node, "vnpus has hamiVnpuCore and configs")
		}
	}
	for _, c := range configs.Items() {
		card := c.Get("commonWord").Text()
		if card == "" {
			b.problem(c.Problem("has no commonWord"))
			continue
		}
		var wrong []string
		for _, tpl := range c.Get("templates").Items() {
			name := tpl.Get("name").Text()
			memory, cores, ok := dialect.AscendTemplate(card, name)
			mib, _ := strconv.ParseInt(tpl.Get("memory").Text(), 10, 64)
			if !ok || memory != model.MiB(mib) || strconv.Itoa(cores) != tpl.Get("aiCore").Text() {
				wrong = append(wrong, name)
			}
		}
		a := answer{Always, "", "the templates are known"}
		if len(wrong) > 0 {
			a = answer{Differs, "", "templates " + strings.Join(wrong, ", ") + " are not HAMi's defaults: pods that ask for memory get the smallest default template that has it, or a whole card"}
		}
		b.row(at{c, c.Path, card}, a)
	}
}

// hamiNodes reads the device plugin's config.json.
func (b *builder) hamiNodes(n node) {
	b.hamiSection()
	for _, e := range n.Entries() {
		if e.Key != "nodeconfig" || !e.IsList() {
			b.unknown(e.Node, "the device plugin's configuration has a list nodeconfig")
			continue
		}
		for _, n := range e.Items() {
			b.hamiNode(n, n.Get("name").Text())
		}
	}
}

// hamiNode are the settings of one node; nothing is set: the agent's flags are the same on all nodes.
func (b *builder) hamiNode(n node, name string) {
	serve, rows := b.serve, len(b.Rows)
	b.serve = false
	defer func() { b.serve = serve }()
	for _, f := range n.Entries() {
		switch {
		case f.Key == "name", f.Key == "filterdevices":
		case !b.judge("plugin/"+f.Key, of(f.Node)):
			b.unknown(f.Node, "not a field of a node in HAMi's device plugin configuration")
		}
	}
	for i := rows; i < len(b.Rows); i++ {
		if r := &b.Rows[i]; r.Verdict == Differs {
			r.Do = "of node " + name + ": agents have one configuration for all nodes; install a second release of the chart with agent.nodeSelector for it, or keep HAMi's device plugin there"
		}
	}
	for _, list := range n.Get("filterdevices").Entries() {
		a := answer{Always, "", ""}
		if len(list.Items()) > 0 {
			a = answer{Differs, "GPUNode " + name + " spec.cordoned", "kubectl patch gpunode " + name + ` --type merge -p '{"spec":{"cordoned":["UUID or index"]}}'`}
		}
		b.row(of(list.Node), a)
	}
}
