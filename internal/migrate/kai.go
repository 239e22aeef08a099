package migrate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// kaiConf reads KAI's scheduler configuration, the entry config.yaml of its ConfigMap.
func (b *builder) kaiConf(t tree) {
	b.Result.profile(names.KAISchedulerName)
	for _, e := range t.entries() {
		switch e.key {
		case "actions":
			on := map[string]bool{}
			for _, name := range b.actionList(e.tree) {
				on[name] = true
				b.kaiAction(e.tree, e.line(), name)
			}
			b.preemption(e.tree, on["preempt"], on["reclaim"])
		case "tiers":
			b.tiers(e.tree, func(p tree, name string) {
				b.kaiPlugin(p, p.get("name").line(), name)
				for _, f := range p.entries() {
					switch f.key {
					case "name":
					case "arguments":
						b.kaiArguments(name, f.tree)
					default:
						b.unknown(f.tree, "not a field of a plugin, which has name and arguments")
					}
				}
			})
		default:
			b.kaiShardField(e)
		}
	}
}

var kaiActionTable = map[string]answer{
	"allocate":          {Always, "", "gangs start whole or not at all"},
	"consolidation":     {None, "", "pods that run are not moved; GPUScore's objective fragmentation avoids the need"},
	"reclaim":           {Set, "GPUQueue.preemption: true", "between queues by share"},
	"preempt":           {Set, "GPUQueue.preemption: true", "inside a queue by priority"},
	"stalegangeviction": {None, "", "a gang that lost members gets them back first and is not ended; a Job's own policies end it"},
}

func (b *builder) kaiAction(t tree, line int, name string) {
	a, ok := kaiActionTable[name]
	if !ok {
		b.unknown(t, strconv.Quote(name)+" is not an action of KAI")
		return
	}
	b.row(t, line, t.path, name, a)
}

var kaiPluginTable = map[string]answer{
	"predicates":       {Always, "", "kube-scheduler's own filters, all of them: KAI has no PodTopologySpread and no volume limits"},
	"proportion":       {Always, "", "Queues of scheduling.run.ai are read as they are: quota, limit, overQuotaWeight, priority"},
	"priority":         {Always, "", "gangs go by PriorityClass, then by age"},
	"nodeavailability": {Always, "", "kube-scheduler's own filters"},
	"resourcetype":     {Always, "", "GPUScore keeps pods without GPUs off GPU nodes"},
	"podaffinity":      {Always, "", "kube-scheduler's own filter and score"},
	"elastic":          {Always, "", "gangs run at their minimum and grow"},
	"kubeflow":         {Always, "", "PyTorchJob and the like are gangs by themselves"},
	"ray":              {Always, "", "a RayCluster is a gang by itself"},
	"subgrouporder":    {Always, "", "subgroups are planned together"},
	"taskorder":        {Always, "", "members of a gang start together; kai.scheduler/task-priority has no effect"},
	"nominatednode":    {Always, "", ""},
	"dynamicresources": {Always, "GPUClaims", "ResourceClaims are planned with the ledger"},
	"minruntime":       {Always, "", "preemptMinRuntime and reclaimMinRuntime of Queues: the longer of both counts for both"},
	"topology":         {Always, "", "Topology objects of kai.scheduler are read as levels of domains"},
	"snapshot":         {Differs, "tangram dump", "a dump of the scheduler's state that can be replayed offline"},
	"reflectjoborder":  {Differs, "tangram jobs", "the position of every gang that waits"},
	"gpupack":          {Set, "GPUScore.placement: binpack", "at nodes and devices"},
	"gpuspread":        {Set, "GPUScore.placement: spread", "at nodes and devices"},
	"nodeplacement":    {Set, "GPUScore.placement", "see its arguments"},
	"gpusharingorder":  {Always, "", "shares go to devices that are shared already where pods are packed"},
	"numa":             {Differs, "tangram.dev/topology: required=numa", "NodeResourceTopology objects are read; the policy of kubelet is predicted for GPUs"},
}

func (b *builder) kaiPlugin(t tree, line int, name string) {
	a, ok := kaiPluginTable[name]
	if !ok {
		b.unknown(t, strconv.Quote(name)+" is not a plugin of KAI; a plugin of your own has no counterpart: write it as a plugin of kube-scheduler")
		return
	}
	b.row(t, line, t.path, name, a)
	switch name {
	case "gpupack":
		b.set(t, names.PluginScore, "binpack", "placement")
	case "gpuspread":
		b.set(t, names.PluginScore, "spread", "placement")
	}
}

func (b *builder) kaiArguments(plugin string, t tree) {
	for _, e := range t.entries() {
		switch {
		case plugin == "nodeplacement" && (e.key == "gpu" || e.key == "cpu"):
			b.kaiPlacement(e)
		case plugin == "minruntime" && (e.key == "defaultPreemptMinRuntime" || e.key == "defaultReclaimMinRuntime"):
			b.of(e.tree, kaiMinRuntime)
		case plugin == "minruntime" && e.key == "reclaimResolveMethod":
			b.of(e.tree, answer{None, "", "a queue's own value counts, else that of the next queue above it"})
		case plugin == "proportion" && e.key == "reclaimerUtilizationMultiplier":
			b.of(e.tree, answer{None, "", "a queue may reclaim up to its share"})
		case plugin == "proportion" && e.key == "kValue":
			b.of(e.tree, kaiUsage)
		default:
			b.of(e.tree, answer{None, "", "no such setting"})
		}
	}
}

var (
	kaiMinRuntime = answer{Differs, "Queue spec.preemptMinRuntime, spec.reclaimMinRuntime", "write it into the topmost Queues: it holds for those below as well"}
	kaiUsage      = answer{Differs, "", "what queues used above their share is paid back from their balance, without Prometheus; the rate is not a setting"}
)

// kaiPlacement is a placement strategy.
func (b *builder) kaiPlacement(e entry) {
	if e.text() != "binpack" && e.text() != "spread" {
		b.problem(e.problem("%q is not binpack or spread", e.text()))
		return
	}
	if e.key == "cpu" {
		b.of(e.tree, answer{Differs, "NodeResourcesFit.scoringStrategy", "for pods without GPUs: write pluginConfig of NodeResourcesFit (MostAllocated or LeastAllocated) by hand"})
		return
	}
	b.set(e.tree, names.PluginScore, e.text(), "placement")
	b.of(e.tree, answer{Set, "GPUScore.placement: " + e.text(), "a pod, queue or namespace may say otherwise"})
}

// kaiShard reads a SchedulingShard.
func (b *builder) kaiShard(t tree) {
	b.Result.profile(names.KAISchedulerName)
	preempt, reclaim, said := true, true, t.get("spec", "actions")
	for _, e := range t.get("spec").entries() {
		switch e.key {
		case "actions":
			for _, a := range e.entries() {
				off := a.get("enabled").text() == "false"
				if _, known := kaiActionTable[a.key]; off && known {
					b.row(a.tree, a.keyLine(), a.path, a.key+" (disabled)", kaiOff(a.key))
				} else {
					b.kaiAction(a.tree, a.keyLine(), a.key)
				}
				preempt, reclaim = preempt && !(off && a.key == "preempt"), reclaim && !(off && a.key == "reclaim")
				b.kaiSwitches(a, "enabled", "priority")
			}
		case "plugins":
			for _, p := range e.entries() {
				if p.get("enabled").text() != "false" || p.key != "gpupack" && p.key != "gpuspread" {
					b.kaiPlugin(p.tree, p.keyLine(), p.key)
				}
				b.kaiSwitches(p, "enabled", "priority", "arguments")
				b.kaiArguments(p.key, p.get("arguments"))
			}
		default:
			b.kaiShardField(e)
		}
	}
	if said.has() {
		b.preemption(said, preempt, reclaim)
	}
}

// kaiOff is an action that is switched off.
func kaiOff(action string) answer {
	switch action {
	case "preempt", "reclaim":
		return answer{Set, "GPUQueue.preemption", "one switch for preempt and reclaim"}
	case "allocate":
		return answer{None, "scheduler.replicas: 0", "a scheduler that starts nothing is one that does not run"}
	}
	return answer{Always, "", "never done here"}
}

// kaiSwitches are enabled and priority of an action or plugin.
func (b *builder) kaiSwitches(e entry, fields ...string) {
	for _, f := range e.entries() {
		switch {
		case !slices.Contains(fields, f.key):
			b.unknown(f.tree, "there are "+strings.Join(fields, ", "))
		case f.key == "enabled" && f.text() == "false" && kaiPluginTable[e.key].verdict == Always:
			b.of(f.tree, answer{None, "", "it cannot be switched off: it is part of every decision"})
		case f.key == "priority":
			b.of(f.tree, answer{None, "", "plugins and actions have no order here"})
		}
	}
}

// kaiShardField is a field of a SchedulingShard, or of the scheduler's configuration.
func (b *builder) kaiShardField(e entry) {
	switch e.key {
	case "placementStrategy":
		for _, p := range e.entries() {
			if p.key != "gpu" && p.key != "cpu" {
				b.unknown(p.tree, "there are gpu and cpu")
				continue
			}
			b.kaiPlacement(p)
		}
	case "partitionLabelValue":
		b.of(e.tree, answer{Differs, "label kai.scheduler/node-pool", "one scheduler serves all pools: pods with the label run on nodes with the same value, pods without it anywhere; give such a pool's pods the label"})
	case "queueDepthPerAction":
		for _, q := range e.entries() {
			b.of(q.tree, answer{None, "", "all gangs that wait are looked at; only what has changed costs time"})
		}
	case "minRuntime":
		for _, m := range e.entries() {
			b.of(m.tree, kaiMinRuntime)
		}
	case "kValue":
		b.of(e.tree, kaiUsage)
	case "usageDBConfig":
		b.of(e.tree, kaiUsage)
	case "scenarioSearchBudgets":
		b.of(e.tree, answer{None, "", "searches are bounded by counted steps, in fractions of a second"})
	case "goMemLimit", "goMemLimitRatio", "goMemLimitPercent":
		b.of(e.tree, answer{None, "scheduler.resources", "the chart's limits"})
	case "args":
		for _, a := range e.entries() {
			b.of(a.tree, kaiFlag(a.key))
		}
	default:
		b.unknown(e.tree, "not a field of a SchedulingShard or of KAI's scheduler configuration")
	}
}

// kaiFlag is a flag of KAI's scheduler.
func kaiFlag(name string) answer {
	switch name {
	case "max-consolidation-preemptees":
		return kaiActionTable["consolidation"]
	case "default-staleness-grace-period":
		return kaiActionTable["stalegangeviction"]
	case "schedule-period":
		return answer{Always, "", "decisions follow events, not a period"}
	case "detailed-fit-errors":
		return answer{Always, "", "reasons with numbers are always there"}
	case "use-scheduling-signatures":
		return answer{Always, "", "equal gangs are planned once"}
	case "leader-elect":
		return answer{Always, "leaderElection.leaderElect", ""}
	case "restrict-node-scheduling":
		return answer{None, "", "taint GPU nodes, or write nodeSelector; GPUScore keeps pods without GPUs off GPU nodes as far as it can"}
	case "schedule-csi-storage", "full-hierarchy-fairness", "num-of-status-recording-workers", "update-pod-eviction-condition":
		return answer{Always, "", ""}
	case "qps", "burst":
		return answer{Differs, "clientConnection." + name, "5000 by default, so that binding is not slowed down"}
	case "queue-label-key":
		return kaiGlobal("queueLabelKey", "")
	}
	return answer{None, "", "no such flag"}
}

// kaiConfigFields are the fields of the operator's Config that are about programs which
// Tangram does not have.
var kaiConfigFields = map[string]answer{
	"podGrouper":         {Always, "", "gangs are read from the workloads themselves; no PodGroups are made"},
	"binder":             {Always, "", "the scheduler binds, devices included; there are no BindRequests and no reservation pods"},
	"admission":          {Differs, "config/admission/kai.yaml", "no webhook: an admission policy of the API server adds HAMi's resources to pods with gpu-fraction"},
	"queueController":    {Always, "", "statuses of KAI's Queues are not written; kubectl get queues.scheduling.volcano.sh has Tangram's"},
	"podGroupController": {Always, "", "statuses of KAI's PodGroups are not written; the pods' conditions say why they wait"},
	"nodeScaleAdjuster":  {Differs, "autoscaling.enabled", "placeholder pods ask for nodes of the domain that a gang lacks"},
	"scheduler":          {None, "scheduler.resources", "the chart's values"},
	"prometheus":         {Differs, "monitoring.enabled", "ServiceMonitors, rules and dashboards of the chart"},
	"numaPlacement":      {None, "", "not needed: NodeResourceTopology objects are read"},
	"namespace":          {None, "", "helm's --namespace"},
}

// kaiConfig reads the operator's Config.
func (b *builder) kaiConfig(t tree) {
	for _, e := range t.get("spec").entries() {
		if e.key == "global" {
			for _, g := range e.entries() {
				b.of(g.tree, kaiGlobal(g.key, g.text()))
				if g.key == "schedulerName" {
					b.Result.profile(g.text())
				}
			}
			continue
		}
		a, ok := kaiConfigFields[e.key]
		if !ok {
			b.unknown(e.tree, "not a field of KAI's Config")
			continue
		}
		b.of(e.tree, a)
	}
	b.Result.profile(names.KAISchedulerName)
}

// kaiGlobal is a field of spec.global.
func kaiGlobal(field, value string) answer {
	switch field {
	case "schedulerName":
		return answer{Set, "profiles[].schedulerName", "a profile of that name"}
	case "queueLabelKey":
		if value == "" || value == names.LabelKAIQueue || value == names.LabelRunaiQueue {
			return answer{Always, "", ""}
		}
		return answer{None, "", "pods name their queue by the label kai.scheduler/queue or tangram.dev/queue; this one is not read"}
	case "nodePoolLabelKey":
		if value == "kai.scheduler/node-pool" {
			return answer{Always, "", ""}
		}
		return answer{None, "", "node pools are told by the label kai.scheduler/node-pool; label nodes and pods, or use nodeSelector"}
	case "clusterAutoscaling":
		return answer{Differs, "autoscaling.enabled", "the chart's value"}
	case "blockNvidiaVisibleDevices":
		return answer{Always, "", "an agent in mode serve refuses containers that set NVIDIA_VISIBLE_DEVICES themselves where that would count"}
	case "replicaCount":
		return answer{Differs, "scheduler.replicas, controller.replicas", "2 by default; one leads"}
	case "tolerations", "affinity", "daemonsetsTolerations", "imagesPullSecret", "additionalImagePullSecrets":
		return answer{Differs, "scheduler.tolerations, agent.tolerations, image.pullSecrets, ...", "the chart's values of each component"}
	case "openshift", "securityContext", "fips", "vpa", "requireDefaultPodAntiAffinityTerm", "requireDefaultPodAffinityTerm":
		return answer{None, "", "no such value of the chart"}
	case "namespaceLabelSelector", "podLabelSelector":
		return answer{None, "", "no webhooks; a pod is Tangram's by its schedulerName"}
	}
	return answer{None, "", "no such setting"}
}

// kaiQueue reads a Queue of scheduling.run.ai, which needs no translation; -o queues has it
// as a Queue of Volcano's kind, for clusters from which KAI's definitions are removed.
func (b *builder) kaiQueue(t tree) {
	object, err := t.asObject()
	if err != nil {
		b.problem(t.problem("%v", err))
		return
	}
	q, err := dialect.KAIQueueOf(&unstructured.Unstructured{Object: object})
	if err != nil {
		b.problem(t.problem("%v", err))
		return
	}
	b.row(t, t.line(), t.objectName(), "", answer{Always, "Queue/" + q.Name, "read as it is; -o queues has it as a Queue of Volcano's kind"})
	kind := dialect.KnownKinds()[slices.IndexFunc(dialect.KnownKinds(), func(k dialect.KnownKind) bool {
		return k.Group == dialect.KAIQueues.Group && k.Kind == "Queue"
	})]
	walkLeaves(t.get("spec"), "spec", func(leaf tree, path string) {
		if !kind.Knows(path) && path != "spec.displayName" {
			b.unknown(leaf, "not a field of a Queue that is read")
		}
	})
	if q.MinRuntime > 0 {
		b.row(t, t.line(), t.objectName()+" spec.preemptMinRuntime, reclaimMinRuntime", q.MinRuntime.String(), answer{Differs, "tangram.dev/min-runtime",
			"counts while the Queue is of KAI's kind; Volcano's kind has no field for it: write the annotation into the pods"})
	}
	b.Result.queues = append(b.Result.queues, queueObject(q))
}

// asObject is the value as objects of the API are: mappings with words as keys, int64 and
// float64, no dates.
func (t tree) asObject() (map[string]any, error) {
	var v any
	if err := t.decode(&v); err != nil {
		return nil, err
	}
	object, ok := asJSON(v).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("not a mapping")
	}
	return object, nil
}

func asJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = asJSON(v[k])
		}
		return v
	case map[any]any:
		out := map[string]any{}
		for k, x := range v {
			out[fmt.Sprint(k)] = asJSON(x)
		}
		return out
	case []any:
		for i := range v {
			v[i] = asJSON(v[i])
		}
		return v
	case int:
		return int64(v)
	case nil, string, bool, int64:
		return v
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
		return v
	}
	return fmt.Sprint(v) // dates, numbers beyond int64
}

// walkLeaves visits values that are no mappings and no lists; [] stands for entries of lists.
// Empty mappings and lists are leaves.
func walkLeaves(t tree, path string, visit func(leaf tree, path string)) {
	switch {
	case !t.has():
	case t.isMap() && len(t.entries()) > 0:
		for _, e := range t.entries() {
			walkLeaves(e.tree, child(path, e.key), visit)
		}
	case t.isList() && len(t.items()) > 0 && !t.items()[0].is(yaml.ScalarNode): // lists of words are leaves
		for _, i := range t.items() {
			walkLeaves(i, path+"[]", visit)
		}
	default:
		visit(t, path)
	}
}
