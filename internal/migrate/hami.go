package migrate

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// HAMi's configuration: values of its chart, the device ConfigMap (device-config.yaml) and
// the device plugin's (config.json). Its device plugin may stay, and Tangram's agent
// observes; or the agent takes its place (Options.Serve).

// hamiNames are the resources of NVIDIA's cards in HAMi's words, which are fixed here: by
// field of the values and of the device ConfigMap.
var hamiNames = map[string]string{
	"resourceName": "nvidia.com/gpu", "resourceMem": "nvidia.com/gpumem", "resourceMemPercentage": "nvidia.com/gpumem-percentage",
	"resourceCores": "nvidia.com/gpucores", "resourcePriority": "nvidia.com/priority",
	"resourceCountName": "nvidia.com/gpu", "resourceMemoryName": "nvidia.com/gpumem", "resourceMemoryPercentageName": "nvidia.com/gpumem-percentage",
	"resourceCoreName": "nvidia.com/gpucores", "resourcePriorityName": "nvidia.com/priority",
}

// hamiPrograms begin values that are about HAMi's own programs.
var hamiPrograms = []string{
	"global.", "nameOverride", "fullnameOverride", "namespaceOverride", "platform.", "openshift.", "selinux.", "podSecurityPolicy.",
	"scheduler.nodeName", "scheduler.nodeLabelSelector", "scheduler.metricsBindAddress", "scheduler.livenessProbe", "scheduler.leaderElect", "scheduler.replicas",
	"scheduler.podDisruptionBudget", "scheduler.kubeScheduler", "scheduler.extender", "scheduler.podAnnotations", "scheduler.tolerations",
	"scheduler.serviceAccountName", "scheduler.certManager", "scheduler.patch", "scheduler.service", "scheduler.networkPolicy",
	"scheduler.kubeQPS", "scheduler.kubeBurst", "scheduler.kubeTimeout", "scheduler.extenderHTTPTimeout", "scheduler.resources", "scheduler.extraArgs",
	"scheduler.nodeSelector", "scheduler.affinity", "scheduler.hostNetwork",
	"devicePlugin.image", "devicePlugin.monitor", "devicePlugin.extraArgs", "devicePlugin.extraEnvs", "devicePlugin.service", "devicePlugin.podAnnotations",
	"devicePlugin.hostPID", "devicePlugin.hostNetwork", "devicePlugin.securityContext", "devicePlugin.updateStrategy", "devicePlugin.resources",
	"devicePlugin.gpuOperatorToolkitReady", "devicePlugin.createRuntimeClass", "devicePlugin.serviceAccountName", "devicePlugin.numaRefit",
	"mockDevicePlugin.", "legacyMetrics", "prometheus.", "version", "imagePullSecrets",
}

// hamiVendors are devices of HAMi for which Tangram has no words.
var hamiVendors = []string{
	"cambricon", "mlu", "hygon", "hcu", "dcu", "metax", "enflame", "mthreads", "iluvatar", "iluvatars", "kunlun", "awsneuron", "vastai", "biren", "amd",
}

var (
	hamiNoVendor = answer{None, "", "no words for shares of these devices; kube-scheduler counts what their own device plugin publishes, one by one"}
	hamiProgram  = answer{None, "", "about HAMi's own program; the chart of gpu-scheduler has values of its own (charts/gpu-scheduler/README.md)"}
	hamiStays    = "while HAMi's device plugin stays (agent.mode: observe) it stays there; --serve translates it"
)

// hamiValues reads values of HAMi's chart.
func (b *builder) hamiValues(t tree) {
	b.Result.profile(names.HAMiSchedulerName)
	b.hamiServe()
	walkLeaves(t, "", func(leaf tree, path string) { b.hamiValue(leaf, path) })
}

// hamiServe lets the agent take the device plugin's place, if that is asked for.
func (b *builder) hamiServe() {
	if b.serve {
		b.Result.value("serve", "agent", "mode")
	}
}

func (b *builder) hamiValue(t tree, path string) {
	top, _, _ := strings.Cut(path, ".")
	field := path[strings.LastIndex(path, ".")+1:]
	isVendor := func(word string) bool {
		return slices.ContainsFunc(hamiVendors, func(v string) bool {
			return word == v || strings.HasPrefix(word, v+"Resource") || strings.HasPrefix(word, v+"s")
		})
	}
	switch {
	case top == path && hamiNames[path] != "":
		b.hamiName(t, path)
	case path == "schedulerName":
		b.Result.profile(t.text())
		b.of(t, answer{Set, "profiles[].schedulerName", "a profile of that name"})
	case strings.HasPrefix(path, "scheduler.defaultSchedulerPolicy."):
		b.hamiPolicy(t, field)
	case path == "scheduler.forceOverwriteDefaultScheduler", strings.HasPrefix(path, "scheduler.admissionWebhook"):
		b.of(t, answer{None, "", "no webhook: pods name the scheduler themselves (schedulerName: hami-scheduler or gpu-scheduler)"})
	case path == "scheduler.nodeLockExpire", path == "scheduler.nodeLockRetryTimeout":
		b.of(t, answer{Always, "", "no node lock is needed: the record is written with the Binding"})
	case path == "scheduler.overwriteEnv":
		b.of(t, answer{Always, "", "containers without a GPU see none where the agent serves with cdi-cri"})
	case path == "device-config.content":
		docs, problems := t.inside()
		b.Problems = append(b.Problems, problems...)
		for _, d := range docs {
			b.hamiDevices(d)
		}
	case path == "devicePlugin.nodeConfiguration.config":
		docs, problems := t.inside()
		b.Problems = append(b.Problems, problems...)
		for _, d := range docs {
			b.hamiNodes(d)
		}
	case path == "devicePlugin.nodeConfiguration.externalConfigName":
		b.of(t, answer{None, "", "give that ConfigMap to tangram migrate as well"})
	case strings.HasPrefix(path, "devicePlugin.") && b.hamiPlugin(t, field, path):
	case strings.HasPrefix(path, "devices.nvidia."), path == "devices.ascend.hamiVnpuCore":
		b.hamiNVIDIA(t, field)
	case strings.HasPrefix(path, "devices.ascend."):
		b.of(t, answer{Always, "", "the Ascend device plugin stays; huawei.com/Ascend... is read as it is"})
	case isVendor(top), top == "devices" && isVendor(strings.Split(path, ".")[1]):
		b.of(t, hamiNoVendor)
	case slices.ContainsFunc(hamiPrograms, func(p string) bool {
		return path == p || strings.HasPrefix(path, p) && (strings.HasSuffix(p, ".") || len(path) > len(p) && strings.ContainsAny(path[len(p):len(p)+1], ".[") || p == "scheduler.service" || p == "devicePlugin.image")
	}):
		b.of(t, hamiProgram)
	default:
		b.unknown(t, "not a value of HAMi's chart")
	}
}

// hamiName is a name of a resource.
func (b *builder) hamiName(t tree, field string) {
	if want := hamiNames[field]; t.text() != want {
		b.of(t, answer{None, "", "the name is fixed: write " + want + " in manifests"})
		return
	}
	w, _ := dialect.FindWord(dialect.Resource, t.text())
	if w.Effect == dialect.Ignores {
		b.of(t, answer{None, "", w.Note})
		return
	}
	b.of(t, answer{Always, "", "read as it is"})
}

// hamiPolicy is a default direction; Tangram has one for nodes and devices.
func (b *builder) hamiPolicy(t tree, field string) {
	word := t.text()
	switch {
	case field != "nodeSchedulerPolicy" && field != "gpuSchedulerPolicy":
		b.unknown(t, "there are nodeSchedulerPolicy and gpuSchedulerPolicy")
	case field == "nodeSchedulerPolicy" && (word == "binpack" || word == "spread"):
		b.set(t, names.PluginScore, word, "placement")
		b.of(t, answer{Set, "GPUScore.placement: " + word, "for nodes and devices; the annotations hami.io/node-scheduler-policy and hami.io/gpu-scheduler-policy of pods say otherwise"})
	case field == "gpuSchedulerPolicy" && (word == "binpack" || word == "spread"):
		b.of(t, answer{Differs, "hami.io/gpu-scheduler-policy", "one default for nodes and devices, the one of nodeSchedulerPolicy; where devices must be filled otherwise, annotate the pods"})
	case field == "gpuSchedulerPolicy" && word == "topology-aware":
		b.of(t, answer{Always, "", "devices that are linked go first where links are known"})
	default:
		b.problem(t.problem("%q is not a policy of HAMi: binpack, spread; for devices also topology-aware", word))
	}
}

// agentFlag is a flag of the agent, set where it serves.
func (b *builder) agentFlag(t tree, flag string) {
	if !b.serve {
		b.of(t, answer{Differs, "agent.extraArgs: " + flag, hamiStays})
		return
	}
	list, _ := b.Result.values["agent"].(map[string]any)["extraArgs"].([]any)
	if !slices.Contains(list, any(flag)) {
		b.Result.values["agent"].(map[string]any)["extraArgs"] = append(list, flag)
	}
	b.of(t, answer{Set, "agent.extraArgs: " + flag, ""})
}

// agentValue is a value of the chart about the agent.
func (b *builder) agentValue(t tree, value any, path ...string) {
	here := strings.Join(path, ".")
	if !b.serve {
		b.of(t, answer{Differs, here, hamiStays})
		return
	}
	if !b.Result.value(value, path...) {
		b.problem(t.problem("%s is set to another value by an earlier input", here))
		return
	}
	b.of(t, answer{Set, here, ""})
}

// sharesMost is the most shares of a GPU that the agent sells.
const sharesMost = 48

// hamiPlugin is a setting of the device plugin, in the chart's values or of a node; false
// when it is none.
func (b *builder) hamiPlugin(t tree, field, path string) bool {
	config := []string{"agent", "config", "flags"}
	switch strings.ToLower(field) {
	case "enabled":
		b.of(t, answer{Differs, "agent.mode", "observe beside HAMi's device plugin, serve in its place (--serve)"})
	case "devicesplitcount":
		n, ok := b.whole(t, 1, 100000)
		switch {
		case ok && n == 1:
			b.of(t, answer{Always, "", "cards are not shared"})
		case ok && n > sharesMost:
			b.of(t, answer{Differs, "agent.extraArgs: --shares-per-gpu=" + strconv.Itoa(sharesMost), "at most 48 shares of a card where the agent serves"})
		case ok:
			b.agentFlag(t, "--shares-per-gpu="+strconv.Itoa(n))
		}
	case "devicememoryscaling", "devicecorescaling":
		if x, err := strconv.ParseFloat(t.text(), 64); err != nil {
			b.problem(t.problem("%q is not a number", t.text()))
		} else if x == 1 {
			b.of(t, answer{Always, "", "memory and compute of a card add up to the card's at most"})
		} else {
			b.of(t, answer{None, "", "nothing is sold twice: ask for less, or stay with HAMi's device plugin, whose registered amounts are read as they are"})
		}
	case "migstrategy":
		if !slices.Contains([]string{"none", "single", "mixed"}, t.text()) {
			b.problem(t.problem("%q is not none, single or mixed", t.text()))
			return true
		}
		b.agentValue(t, t.text(), append(config, "migStrategy")...)
	case "passdevicespecsenabled":
		b.agentValue(t, t.text() == "true", append(config, "plugin", "passDeviceSpecs")...)
	case "devicelistrategy", "deviceliststrategy":
		b.of(t, answer{Differs, "agent.config.flags.plugin.deviceListStrategy", "cdi-cri, which shares by amount need; a container runtime with CDI"})
	case "nvidiadriverroot":
		if t.text() == "auto" {
			b.of(t, answer{Differs, "agent.driverRoot", "/ by default; /run/nvidia/driver where the GPU operator installs the driver"})
			return true
		}
		b.agentValue(t, t.text(), "agent", "driverRoot")
	case "disablecorelimit":
		if t.text() == "true" {
			b.of(t, answer{None, "", "compute is limited for containers that ask for a part of it; leave nvidia.com/gpucores out for no limit"})
		} else {
			b.of(t, answer{Always, "", ""})
		}
	case "preconfigureddevicememory":
		if n, ok := b.whole(t, 0, 1<<24); ok && n == 0 {
			b.of(t, answer{Always, "", "the driver says it"})
		} else if ok {
			b.of(t, answer{None, "", "memory comes from the driver; where that has none, stay with HAMi's device plugin"})
		}
	case "enablenumatopology", "enablegetpreferredallocation", "numarefit":
		b.of(t, answer{Always, "", "kubelet is told NUMA nodes, and which devices are preferred: those of the record"})
	case "runtimeclassname":
		b.of(t, answer{Always, "", "not needed with cdi-cri; a pod's own runtimeClassName stays"})
	case "libpath":
		b.agentFlag(t, "--hami-library-dir="+t.text())
		b.agentFlag(t, "--isolation=hami")
	case "pluginpath":
		b.of(t, answer{Differs, "agent.kubeletDir", "the folder of kubelet, without device-plugins"})
	case "nvidiahookpath", "gdrcopyenabled", "gdsenabled", "mofedenabled", "hostpidbroker":
		b.of(t, answer{None, "", "no such setting"})
	default:
		switch {
		case strings.Contains(path, "nvidiaNodeSelector"):
			b.of(t, answer{Differs, "agent.nodeSelector", "agents go to nodes with nvidia.com/gpu.present=true and the like; label others tangram.dev/gpu-agent=true"})
		case strings.Contains(path, "tolerations"):
			b.of(t, answer{Differs, "agent.tolerations", "nvidia.com/gpu is tolerated by default"})
		case strings.Contains(path, "hostPIDBroker"):
			b.of(t, answer{None, "", "no such setting"})
		case strings.Contains(path, "numaRefit"):
			b.of(t, answer{Always, "", "kubelet is told which devices are preferred: those of the record"})
		default:
			return false
		}
	}
	return true
}

// hamiDevices reads device-config.yaml.
func (b *builder) hamiDevices(t tree) {
	b.Result.profile(names.HAMiSchedulerName)
	b.hamiServe()
	for _, e := range t.entries() {
		switch {
		case e.key == "nvidia":
			for _, f := range e.entries() {
				b.hamiNVIDIA(f.tree, f.key)
			}
		case e.key == "vnpus":
			b.hamiAscend(e.tree)
		case slices.Contains(hamiVendors, e.key):
			b.row(e.tree, e.keyLine(), e.path, "{...}", hamiNoVendor)
		default:
			b.unknown(e.tree, "not a vendor of HAMi's device configuration")
		}
	}
}

// hamiNVIDIA is a setting of NVIDIA's devices.
func (b *builder) hamiNVIDIA(t tree, field string) {
	switch field {
	case "defaultMemory", "defaultCores":
		if n, ok := b.whole(t, 0, 1<<24); ok && n == 0 {
			b.of(t, answer{Always, "", "left out: all of the card's memory, and the compute that other shares leave"})
		} else if ok {
			b.of(t, answer{None, "", "a pod gets what it asks for: write nvidia.com/gpumem or nvidia.com/gpucores in manifests"})
		}
	case "defaultGPUNum":
		if n, ok := b.whole(t, 0, 1024); ok && n <= 1 {
			b.of(t, answer{Always, "", "one card where only memory or compute is asked for"})
		} else if ok {
			b.of(t, answer{None, "", "one card where only memory or compute is asked for: write nvidia.com/gpu in manifests"})
		}
	case "memoryFactor":
		if n, ok := b.whole(t, 0, 1<<20); ok && n <= 1 {
			b.of(t, answer{Always, "", ""})
		} else if ok {
			b.of(t, answer{None, "", "nvidia.com/gpumem is in MiB: multiply the amounts in manifests"})
		}
	case "overwriteEnv":
		b.of(t, answer{Always, "", "containers without a GPU see none where the agent serves with cdi-cri"})
	case "gpuCorePolicy":
		if t.text() == "default" || t.text() == "" {
			b.of(t, answer{Always, "", ""})
		} else {
			b.of(t, answer{None, "", "compute is limited for containers that ask for a part of it, and for no others"})
		}
	case "libCudaLogLevel":
		b.of(t, answer{None, "", "set LIBCUDA_LOG_LEVEL in the container"})
	case "knownMigGeometries", "migProfileAllowlist":
		b.row(t, t.line(), t.path, "[...]", answer{Always, "", "not needed: MIG profiles come from the driver, or from Tangram's own table, and placements are computed"})
	case "hamiVnpuCore":
		b.of(t, answer{Differs, "huawei.com/vnpu-mode: hami-core", "annotation of pods that want shares of any size"})
	default:
		switch {
		case hamiNames[field] != "":
			b.hamiName(t, field)
		case b.hamiPlugin(t, field, t.path):
		default:
			b.unknown(t, "not a field of NVIDIA's devices in HAMi's configuration")
		}
	}
}

// hamiAscend compares templates with those that are known.
func (b *builder) hamiAscend(t tree) {
	configs := t
	if t.isMap() {
		configs = t.get("configs")
		for _, e := range t.entries() {
			switch e.key {
			case "configs":
			case "hamiVnpuCore":
				b.hamiNVIDIA(e.tree, e.key)
			default:
				b.unknown(e.tree, "vnpus has hamiVnpuCore and configs")
			}
		}
	}
	for _, c := range configs.items() {
		card := c.get("commonWord").text()
		if card == "" {
			b.problem(c.problem("has no commonWord"))
			continue
		}
		var wrong []string
		for _, tpl := range c.get("templates").items() {
			name := tpl.get("name").text()
			memory, cores, ok := dialect.AscendTemplate(card, name)
			mib, _ := strconv.ParseInt(tpl.get("memory").text(), 10, 64)
			if !ok || memory != model.MiB(mib) || strconv.Itoa(cores) != tpl.get("aiCore").text() {
				wrong = append(wrong, name)
			}
		}
		a := answer{Always, "", "the templates are known"}
		if len(wrong) > 0 {
			a = answer{Differs, "", "templates " + strings.Join(wrong, ", ") + " are not HAMi's defaults: pods that ask for memory get the smallest default template that has it, or a whole card"}
		}
		b.row(c, c.line(), c.path, card, a)
	}
}

// hamiNodes reads the device plugin's config.json.
func (b *builder) hamiNodes(t tree) {
	b.hamiServe()
	for _, e := range t.entries() {
		if e.key != "nodeconfig" || !e.isList() {
			b.unknown(e.tree, "the device plugin's configuration has a list nodeconfig")
			continue
		}
		for _, n := range e.items() {
			node := n.get("name").text()
			for _, f := range n.entries() {
				switch f.key {
				case "name":
				case "operatingmode":
					b.of(f.tree, answer{Always, "", "the mode that the node registers counts; nvidia.com/vgpu-mode asks for it"})
				case "filterdevices":
					for _, list := range f.entries() {
						if len(list.items()) > 0 {
							b.of(list.tree, answer{Differs, "GPUNode " + node + " spec.cordoned", "kubectl patch gpunode " + node + ` --type merge -p '{"spec":{"cordoned":["UUID or index"]}}'`})
						} else {
							b.of(list.tree, answer{Always, "", ""})
						}
					}
				default:
					if b.hamiNode(f, node) {
						continue
					}
					b.unknown(f.tree, "not a field of a node in HAMi's device plugin configuration")
				}
			}
		}
	}
}

// hamiNode is a setting of one node: flags of the agent are the same on all nodes, so nothing
// is set.
func (b *builder) hamiNode(f entry, node string) bool {
	before, rows := b.serve, len(b.Rows)
	b.serve = false
	defer func() { b.serve = before }()
	if !b.hamiPlugin(f.tree, f.key, f.path) {
		return false
	}
	for i := rows; i < len(b.Rows); i++ {
		if r := &b.Rows[i]; r.Verdict == Differs {
			r.Do = "of node " + node + ": agents have one configuration for all nodes; install a second release of the chart with agent.nodeSelector for it, or keep HAMi's device plugin there"
		}
	}
	return true
}
