package migrate

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/tangram-dev/tangram/api/names"
)

// volcanoRules: action/NAME, plugin/NAME, plugin/NAME/ARGUMENT, strategy/RESOURCE, switch/PLUGIN/NAME,
// configuration/ACTION/ARGUMENT, metrics/NAME.
var volcanoRules = []rule{
	{"action/enqueue", "", Always, "", "pods exist at once; whether a gang may start is one decision over quota, reclaimable capacity and places, so nothing is held by gangs that are only enqueued"},
	{"action/allocate", "", Always, "", "gangs start whole or not at all"},
	{"action/backfill", "", Always, "GPUQueue.backfill", "pods that ask for nothing are kube-scheduler's; GPUQueue.backfill (default true) is something else: jobs pass those before them that do not fit"},
	{"action/preempt", "", Set, "GPUQueue.preemption: true", "inside a queue by priority; only where it is proven that the gang then fits"},
	{"action/reclaim", "", Set, "GPUQueue.preemption: true", "between queues by share; a queue with spec.reclaimable: false gives nothing back"},
	{"action/gangpreempt", "", Set, "GPUQueue.preemption: true", "preemption is always by whole gangs"},
	{"action/gangreclaim", "", Set, "GPUQueue.preemption: true", "reclaim is always by whole gangs"},
	{"action/shuffle", "", None, "", "Tangram does not move pods that run; a descheduler may, and sees the pods' PodDisruptionBudgets"},
	{"action/elect|reserve", "", None, "", "removed from Volcano 1.5; GPUQueue.reservations keeps nodes for large gangs"},

	{"plugin/priority", "", Always, "", "gangs go by PriorityClass, then by age; a Queue's annotation tangram.dev/order changes that"},
	{"plugin/gang", "", Always, "", "gangs are whole or nothing, minTaskMember and subGroupPolicy included"},
	{"plugin/conformance", "", Always, "GPUQueue.protectedNamespaces", "system-critical pods and those of kube-system are never evicted"},
	{"plugin/drf", "", Always, "", "shares are by dominant resource"},
	{"plugin/proportion", "", Always, "", "Queue spec.weight, capability and reclaimable are read as they are"},
	{"plugin/capacity", "", Always, "", "Queue spec.deserved, guarantee, capability, parent and priority are read as they are"},
	{"plugin/overcommit", "", None, "", "not needed: pods exist at once and hold nothing while they wait"},
	{"plugin/predicates", "", Always, "", "kube-scheduler's own filters, all of them"},
	{"plugin/nodeorder", "", Always, "", "kube-scheduler's own scores beside GPUScore"},
	{"plugin/binpack", "", Set, "GPUScore.volcano", "GPUs count without being listed"},
	{"plugin/resource-strategy-fit", "", Differs, "GPUScore.placement", "see its arguments"},
	{"plugin/deviceshare", "", Always, "GPUScore.volcano", "devices are chosen with the node, and written with the Binding"},
	{"plugin/network-topology-aware", "", Always, "GPUScore.weights.topology", "HyperNodes are read as levels of domains; networkTopology of PodGroups counts"},
	{"plugin/numa-aware", "", Differs, "tangram.dev/topology: required=numa", "of GPUs; Numatopology objects are not read, NodeResourceTopology objects are"},
	{"plugin/task-topology", "", None, "", "describe tasks that must be close as subgroups with a level (docs/guides/hierarchical-gangs.md), or use tangram.dev/device-affinity"},
	{"plugin/nodegroup", "", None, "", "write the node group as nodeSelector or affinity of the pods; label volcano.sh/nodegroup-name then is an ordinary label"},
	{"plugin/usage", "", Differs, "GPUScore.weights.liveUtilization, liveMemory, temperature, power", "of GPUs, as agents measure them; loads of CPU and memory are not read"},
	{"plugin/rescheduling", "", None, "", "Tangram does not move pods that run; a descheduler may"},
	{"plugin/tdm", "", None, "", "taint the nodes outside their hours (a CronJob with kubectl taint), or use GPUNode spec.cordoned for single devices"},
	{"plugin/cdp", "", Differs, "tangram.dev/min-runtime", "write volcano.sh/cooldown-time of pods as tangram.dev/min-runtime, with the same duration"},
	{"plugin/sla", "", Always, "GPUQueue.patience", "6h, unless its argument says otherwise"},
	{"plugin/pdb", "", Always, "", "victims are chosen by PodDisruptionBudgets, and leave through the eviction API"},
	{"plugin/resourcequota", "", Differs, "tangram.dev/quota", "the API server itself refuses pods above a ResourceQuota; the annotation on a Namespace makes them wait instead"},
	{"plugin/extender", "", None, "", "kube-scheduler's extenders (field extenders of the configuration) have another protocol: rewrite the webhook for it, or leave it out"},

	{"plugin/binpack/binpack.*", "", Set, "GPUScore.volcano[*]=", ""},
	{"plugin/deviceshare/deviceshare.GPUExclusiveRules", "", None, "", "write tangram.dev/device-affinity in the pods that must not share a card"},
	{"plugin/deviceshare/deviceshare.KnownGeometriesCM*", "", None, "", "not needed: MIG profiles come from the driver, or from Tangram's own table"},
	{"plugin/deviceshare/deviceshare.AscendMindClusterVNPUEnable", "", None, "", "huawei.com/npu-core is read without it"},
	{"plugin/deviceshare/deviceshare.NodeLockEnable", "false", Set, "GPUScore.volcano[*]=", ""},
	{"plugin/deviceshare/deviceshare.NodeLockEnable", "", None, "", "no node lock is needed: the record is written with the Binding"},
	{"plugin/deviceshare/deviceshare.*Enable", "false", None, "", "all vocabularies are on; a pod gets what it asks for"},
	{"plugin/deviceshare/deviceshare.ScheduleWeight", "0..0", Always, "", "0 has no effect"},
	{"plugin/deviceshare/deviceshare.ScheduleWeight", "1..1000", Set, "GPUScore.weights.utilization=", "weighed against the other objectives; only proportions matter"},
	{"plugin/deviceshare/deviceshare.*", "", Set, "GPUScore.volcano[*]=", ""},
	{"plugin/nodeorder/nodeaffinity.weight", "0..1000", Set, "plugins.score: NodeAffinity=", "a weight beside GPUScore's 10"},
	{"plugin/nodeorder/podaffinity.weight", "0..1000", Set, "plugins.score: InterPodAffinity=", "a weight beside GPUScore's 10"},
	{"plugin/nodeorder/tainttoleration.weight", "0..1000", Set, "plugins.score: TaintToleration=", "a weight beside GPUScore's 10"},
	{"plugin/nodeorder/imagelocality.weight", "0..1000", Set, "plugins.score: ImageLocality=", "a weight beside GPUScore's 10"},
	{"plugin/nodeorder/podtopologyspread.weight", "0..1000", Set, "plugins.score: PodTopologySpread=", "a weight beside GPUScore's 10"},
	{"plugin/nodeorder/balancedresource.weight", "0..1000", Set, "plugins.score: NodeResourcesBalancedAllocation=", "a weight beside GPUScore's 10"},
	{"plugin/nodeorder/selectorspread.weight", "", Differs, "plugins.score: PodTopologySpread", "replaced by it in Kubernetes itself"},
	{"plugin/sla/sla-waiting-time|JobWaitingTime", "duration", Set, "GPUQueue.patience=", "so long a gang waits before nodes are kept for it; annotations sla-waiting-time of single jobs are not read"},
	{"plugin/resource-strategy-fit/*", "", None, "", "GPUScore already keeps CPU and memory beside free GPUs, and pods without GPUs off GPU nodes"},
	{"strategy/nvidia.com/gpu", "MostAllocated", Set, "GPUScore.placement=binpack", "weights of resources are not taken over"},
	{"strategy/nvidia.com/gpu", "LeastAllocated", Set, "GPUScore.placement=spread", "weights of resources are not taken over"},
	{"strategy/*", "MostAllocated|LeastAllocated", Differs, "NodeResourcesFit.scoringStrategy", "one direction for all resources: write pluginConfig of NodeResourcesFit by hand"},
	{"plugin/predicates/predicate.GPUSharingEnable|predicate.GPUNumberEnable|predicate.VGPUEnable", "", Always, "", "all vocabularies are on"},
	{"plugin/predicates/predicate.CacheEnable", "", Always, "", "what filters refuse is remembered"},
	{"plugin/predicates/predicate.ProportionalEnable*|predicate.resources*", "", Differs, "", "GPUScore steers pods without GPUs away from CPU and memory that free GPUs need; amounts are not set"},
	{"plugin/predicates/predicate.*", "true", Always, "", "kube-scheduler's own filter"},
	{"plugin/predicates/predicate.*", "false", Differs, "plugins.multiPoint.disabled", "kube-scheduler's own filter stays on; to switch it off, name it under plugins.multiPoint.disabled"},

	{"switch/*/enableHierarchy", "true", Differs, "Queue spec.parent", "hierarchies are spec.parent of Queues; annotations volcano.sh/hierarchy and hierarchy-weights are not read"},
	{"switch/gang/enablePreemptable|enableReclaimable", "false", Always, "", "gangs may be evicted, always whole or down to their minimum: no switch is needed for preemption to work"},
	{"switch/drf/enablePreemptable|enableReclaimable", "false", Always, "", "shares inside a queue evict nothing"},
	{"switch/*/*", "true", Always, "", ""},
	{"switch/*/*", "false", None, "", "parts of a plugin cannot be switched off; what it does stays on"},

	{"configuration/enqueue/*", "", None, "", "not needed: pods exist at once and hold nothing while they wait"},
	{"configuration/init-params/*", "", Always, "", "virtual NPUs are read without it"},
	{"configuration/*/predicateErrorCache*", "", Always, "", "what filters refuse is remembered"},
	{"configuration/preempt|reclaim|gang*/*", "", Always, "", "victims are searched so that the gang is proven to fit, topology included; bounds are counted steps"},
	{"configuration/*/*", "", None, "", "no such setting"},

	{"metrics/*", "", None, "", "the source of loads for Volcano's plugin usage; Tangram's agents publish what they measure of GPUs, loads of CPU and memory are not read"},
}

// volcano reads volcano-scheduler.conf: actions, tiers of plugins, configurations of actions.
func (b *builder) volcano(n node) {
	b.Result.profile(names.VolcanoSchedulerName)
	for _, e := range n.Entries() {
		switch e.Key {
		case "actions":
			b.actions(e.Node, "Volcano")
		case "tiers":
			b.tiers(e.Node, b.volcanoPlugin)
		case "configurations":
			b.volcanoConfigurations(e.Node)
		case "metrics":
			b.walk(e.Node, "metrics", "", nil)
		default:
			b.unknown(e.Node, "not a field of volcano-scheduler.conf, which has actions, tiers, configurations and metrics")
		}
	}
}

// actions reads the text form "enqueue, allocate" of a system's actions.
func (b *builder) actions(n node, system string) {
	if n.Text() == "" {
		b.problem(n.Problem("must be a list of actions such as \"enqueue, allocate\""))
		return
	}
	evicts := map[string]bool{}
	for word := range strings.SplitSeq(n.Text(), ",") {
		switch word = strings.TrimSpace(word); {
		case word == "":
			b.problem(n.Problem("%q has an empty entry", n.Text()))
		case !b.judge("action/"+word, at{n, n.Path, word}):
			b.unknown(n, strconv.Quote(word)+" is not an action of "+system)
		default:
			evicts[strings.TrimPrefix(word, "gang")] = true
		}
	}
	b.preemption(n, evicts["preempt"], evicts["reclaim"])
}

// preemption says whether gangs may take the place of others: one switch here, two actions elsewhere.
func (b *builder) preemption(n node, preempt, reclaim bool) {
	b.assign(n, "GPUQueue.preemption", preempt || reclaim)
	switch {
	case !preempt && !reclaim:
		b.row(at{n, n.Path, "(neither preempt nor reclaim)"}, answer{Set, "GPUQueue.preemption: false", "nothing is evicted for others, as before; leave it out to let gangs take the place of others"})
	case preempt != reclaim:
		missing, do := "reclaim", "queues also take back their share from others; set spec.reclaimable: false on queues that must keep what they have"
		if !preempt {
			missing, do = "preempt", "higher priorities also preempt lower ones of their queue; set preemptionPolicy: Never in PriorityClasses, or tangram.dev/preemptible: \"false\" on pods"
		}
		b.row(at{n, n.Path, "(no " + missing + ")"}, answer{Differs, "GPUQueue.preemption: true", "both are one switch here: " + do})
	}
}

// tiers reads tiers[].plugins[]. In Volcano a tier decides before the next; here they have no order.
func (b *builder) tiers(n node, plugin func(n node, name string)) {
	if !n.IsList() {
		b.problem(n.Problem("must be a list of tiers"))
	}
	for _, tier := range n.Items() {
		for _, e := range tier.Entries() {
			if e.Key != "plugins" || !e.IsList() {
				b.unknown(e.Node, "a tier has a list of plugins")
				continue
			}
			for _, p := range e.Items() {
				if name := p.Get("name").Text(); name != "" {
					plugin(p, name)
				} else {
					b.problem(p.Problem("has no name"))
				}
			}
		}
	}
}

var enableField = regexp.MustCompile(`^enabled?[A-Z][A-Za-z]*$`)

func (b *builder) volcanoPlugin(p node, name string) {
	if !b.judge("plugin/"+name, at{p.Get("name"), p.Path, name}) {
		b.unknown(p.Get("name"), strconv.Quote(name)+" is not a plugin of Volcano; a plugin of your own (--plugins-dir) has no counterpart: write it as a plugin of kube-scheduler")
		return
	}
	if name == "binpack" && !p.Get("arguments", "binpack.weight").Has() {
		b.assign(p, "GPUScore.volcano[binpack.weight]", 1) // its default
	}
	for _, e := range p.Entries() {
		switch {
		case e.Key == "name":
		case e.Key == "arguments":
			if !e.IsMap() && !e.IsNull() {
				b.problem(e.Problem("must be a mapping"))
			}
			for _, arg := range e.Entries() {
				b.volcanoArgument(name, arg)
			}
			b.volcanoNodeorder(name, e.Node)
		case enableField.MatchString(e.Key):
			b.judge("switch/"+name+"/"+e.Key, of(e.Node))
		default:
			b.unknown(e.Node, "not a field of a plugin, which has name, arguments and switches such as enablePreemptable")
		}
	}
}

// volcanoArgument is one argument of a plugin.
func (b *builder) volcanoArgument(plugin string, e entry) {
	switch {
	case plugin == "nodeorder" && (e.Key == "leastrequested.weight" || e.Key == "mostrequested.weight"): // together: volcanoNodeorder
	case plugin == "resource-strategy-fit" && e.Key == "resources" && e.IsMap():
		for _, r := range e.Entries() {
			kind := r.Get("type")
			b.judge("strategy/"+r.Key, at{kind, r.Path, kind.Text()})
		}
	case !b.judge("plugin/"+plugin+"/"+e.Key, of(e.Node)):
		r := about(b.from, "plugin/"+plugin)[0]
		a := answer{r.verdict, r.here, r.do}
		if a.verdict == Always || a.verdict == Set {
			a = answer{None, "", "no such setting; " + a.do}
		}
		b.row(of(e.Node), a)
	}
}

// volcanoNodeorder is what leastrequested and mostrequested mean together.
func (b *builder) volcanoNodeorder(plugin string, args node) {
	least, most := args.Get("leastrequested.weight"), args.Get("mostrequested.weight")
	if plugin != "nodeorder" || !least.Has() && !most.Has() {
		return
	}
	l, okL := b.weight(least, 1) // Volcano's defaults
	m, okM := b.weight(most, 0)
	if !okL || !okM {
		return
	}
	kind, weight := "LeastAllocated", l
	if m > l {
		kind, weight = "MostAllocated", m
	}
	for _, n := range []node{least, most} {
		if n.Has() {
			b.row(of(n), answer{Set, "NodeResourcesFit.scoringStrategy: " + kind, "the larger of leastrequested and mostrequested; where pods are scored on several nodes"})
		}
	}
	b.Result.score("NodeResourcesFit", weight)
	b.assign(args, "NodeResourcesFit.apiVersion", "kubescheduler.config.k8s.io/v1")
	b.assign(args, "NodeResourcesFit.kind", "NodeResourcesFitArgs")
	b.assign(args, "NodeResourcesFit.scoringStrategy.type", kind)
	b.assign(args, "NodeResourcesFit.scoringStrategy.resources", []any{map[string]any{"name": "cpu", "weight": 1}, map[string]any{"name": "memory", "weight": 1}})
}

// weight is a weight of a score, or its default.
func (b *builder) weight(n node, otherwise int) (int, bool) {
	if !n.Has() {
		return otherwise, true
	}
	value, ok := fits("0..1000", n.Text())
	if !ok {
		b.problem(n.Problem("%q is not a whole number from 0 to 1000", n.Text()))
	}
	return value.(int), ok
}

// volcanoConfigurations are arguments of actions.
func (b *builder) volcanoConfigurations(n node) {
	if !n.IsList() && !n.IsNull() {
		b.problem(n.Problem("must be a list"))
	}
	for _, c := range n.Items() {
		name := c.Get("name").Text()
		if len(about(b.from, "action/"+name)) == 0 && name != "init-params" {
			b.unknown(c, strconv.Quote(name)+" is not an action of Volcano")
			continue
		}
		for _, e := range c.Entries() {
			switch e.Key {
			case "name":
			case "arguments":
				for _, arg := range e.Entries() {
					b.judge("configuration/"+name+"/"+arg.Key, of(arg.Node))
				}
			default:
				b.unknown(e.Node, "a configuration has name and arguments")
			}
		}
	}
}
