package migrate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/api/names"
)

// volcano reads volcano-scheduler.conf: actions, tiers of plugins with arguments, and
// configurations of actions.
func (b *builder) volcano(t tree) {
	b.Result.profile(names.VolcanoSchedulerName)
	for _, e := range t.entries() {
		switch e.key {
		case "actions":
			b.volcanoActions(e.tree)
		case "tiers":
			b.tiers(e.tree, b.volcanoPlugin)
		case "configurations":
			b.volcanoConfigurations(e.tree)
		case "metrics":
			for _, m := range e.entries() {
				b.of(m.tree, answer{None, "", "the source of loads for Volcano's plugin usage; Tangram's agents publish what they measure of GPUs, loads of CPU and memory are not read"})
			}
		default:
			b.unknown(e.tree, "not a field of volcano-scheduler.conf, which has actions, tiers, configurations and metrics")
		}
	}
}

// actionList reads the text form "enqueue, allocate": each with the column it begins at is
// not needed, the line is.
func (b *builder) actionList(t tree) []string {
	if t.text() == "" {
		b.problem(t.problem("must be a list of actions such as \"enqueue, allocate\""))
		return nil
	}
	var out []string
	for word := range strings.SplitSeq(t.text(), ",") {
		if word = strings.TrimSpace(word); word == "" {
			b.problem(t.problem("%q has an empty entry", t.text()))
			continue
		}
		out = append(out, word)
	}
	return out
}

var volcanoActionTable = map[string]answer{
	"enqueue":     {Always, "", "pods exist at once; whether a gang may start is one decision over quota, reclaimable capacity and places, so nothing is held by gangs that are only enqueued"},
	"allocate":    {Always, "", "gangs start whole or not at all"},
	"backfill":    {Always, "GPUQueue.backfill", "pods that ask for nothing are kube-scheduler's; GPUQueue.backfill (default true) is something else: jobs pass those before them that do not fit"},
	"preempt":     {Set, "GPUQueue.preemption: true", "inside a queue by priority; only where it is proven that the gang then fits"},
	"reclaim":     {Set, "GPUQueue.preemption: true", "between queues by share; a queue with spec.reclaimable: false gives nothing back"},
	"gangpreempt": {Set, "GPUQueue.preemption: true", "preemption is always by whole gangs"},
	"gangreclaim": {Set, "GPUQueue.preemption: true", "reclaim is always by whole gangs"},
	"shuffle":     {None, "", "Tangram does not move pods that run; a descheduler may, and sees the pods' PodDisruptionBudgets"},
	"elect":       {None, "", "removed from Volcano 1.5; GPUQueue.reservations keeps nodes for large gangs"},
	"reserve":     {None, "", "removed from Volcano 1.5; GPUQueue.reservations keeps nodes for large gangs"},
}

func (b *builder) volcanoActions(t tree) {
	list := b.actionList(t)
	evicts := map[string]bool{}
	for _, name := range list {
		a, ok := volcanoActionTable[name]
		if !ok {
			b.unknown(t, strconv.Quote(name)+" is not an action of Volcano")
			continue
		}
		b.row(t, t.line(), t.path, name, a)
		evicts[strings.TrimPrefix(name, "gang")] = true
	}
	b.preemption(t, evicts["preempt"], evicts["reclaim"])
}

// preemption says whether gangs may take the place of others: one switch here, two actions
// elsewhere.
func (b *builder) preemption(t tree, preempt, reclaim bool) {
	b.set(t, names.PluginQueue, preempt || reclaim, "preemption")
	switch {
	case !preempt && !reclaim:
		b.row(t, t.line(), t.path, "(neither preempt nor reclaim)", answer{Set, "GPUQueue.preemption: false", "nothing is evicted for others, as before; leave it out to let gangs take the place of others"})
	case preempt != reclaim:
		missing, do := "reclaim", "queues also take back their share from others; set spec.reclaimable: false on queues that must keep what they have"
		if !preempt {
			missing, do = "preempt", "higher priorities also preempt lower ones of their queue; set preemptionPolicy: Never in PriorityClasses, or tangram.dev/preemptible: \"false\" on pods"
		}
		b.row(t, t.line(), t.path, "(no "+missing+")", answer{Differs, "GPUQueue.preemption: true", "both are one switch here: " + do})
	}
}

// set notes an argument; a second input with another value is a problem.
func (b *builder) set(t tree, plugin string, value any, path ...string) {
	if !b.Result.arg(plugin, value, path...) {
		b.problem(t.problem("%s.%s is set to another value by an earlier input", plugin, strings.Join(path, ".")))
	}
}

// tiers reads tiers[].plugins[]: in Volcano a tier decides before the next, here all
// plugins of kube-scheduler have their place.
func (b *builder) tiers(t tree, plugin func(t tree, name string)) {
	if !t.isList() {
		b.problem(t.problem("must be a list of tiers"))
	}
	for _, tier := range t.items() {
		for _, e := range tier.entries() {
			if e.key != "plugins" || !e.isList() {
				b.unknown(e.tree, "a tier has a list of plugins")
				continue
			}
			for _, p := range e.items() {
				name := p.get("name")
				if name.text() == "" {
					b.problem(p.problem("has no name"))
					continue
				}
				plugin(p, name.text())
			}
		}
	}
}

var enableField = regexp.MustCompile(`^enabled?[A-Z][A-Za-z]*$`)

// volcanoPluginTable says what the plugins do here.
var volcanoPluginTable = map[string]answer{
	"priority":               {Always, "", "gangs go by PriorityClass, then by age; a Queue's annotation tangram.dev/order changes that"},
	"gang":                   {Always, "", "gangs are whole or nothing, minTaskMember and subGroupPolicy included"},
	"conformance":            {Always, "GPUQueue.protectedNamespaces", "system-critical pods and those of kube-system are never evicted"},
	"drf":                    {Always, "", "shares are by dominant resource"},
	"proportion":             {Always, "", "Queue spec.weight, capability and reclaimable are read as they are"},
	"capacity":               {Always, "", "Queue spec.deserved, guarantee, capability, parent and priority are read as they are"},
	"overcommit":             {None, "", "not needed: pods exist at once and hold nothing while they wait"},
	"predicates":             {Always, "", "kube-scheduler's own filters, all of them"},
	"nodeorder":              {Always, "", "kube-scheduler's own scores beside GPUScore"},
	"binpack":                {Set, "GPUScore.volcano", "GPUs count without being listed"},
	"resource-strategy-fit":  {Differs, "GPUScore.placement", "see its arguments"},
	"deviceshare":            {Always, "GPUScore.volcano", "devices are chosen with the node, and written with the Binding"},
	"network-topology-aware": {Always, "GPUScore.weights.topology", "HyperNodes are read as levels of domains; networkTopology of PodGroups counts"},
	"numa-aware":             {Differs, "tangram.dev/topology: required=numa", "of GPUs; Numatopology objects are not read, NodeResourceTopology objects are"},
	"task-topology":          {None, "", "describe tasks that must be close as subgroups with a level (docs/guides/hierarchical-gangs.md), or use tangram.dev/device-affinity"},
	"nodegroup":              {None, "", "write the node group as nodeSelector or affinity of the pods; label volcano.sh/nodegroup-name then is an ordinary label"},
	"usage":                  {Differs, "GPUScore.weights.liveUtilization, liveMemory, temperature, power", "of GPUs, as agents measure them; loads of CPU and memory are not read"},
	"rescheduling":           {None, "", "Tangram does not move pods that run; a descheduler may"},
	"tdm":                    {None, "", "taint the nodes outside their hours (a CronJob with kubectl taint), or use GPUNode spec.cordoned for single devices"},
	"cdp":                    {Differs, "tangram.dev/min-runtime", "write volcano.sh/cooldown-time of pods as tangram.dev/min-runtime, with the same duration"},
	"sla":                    {Always, "GPUQueue.patience", "6h, unless its argument says otherwise"},
	"pdb":                    {Always, "", "victims are chosen by PodDisruptionBudgets, and leave through the eviction API"},
	"resourcequota":          {Differs, "tangram.dev/quota", "the API server itself refuses pods above a ResourceQuota; the annotation on a Namespace makes them wait instead"},
	"extender":               {None, "", "kube-scheduler's extenders (field extenders of the configuration) have another protocol: rewrite the webhook for it, or leave it out"},
}

func (b *builder) volcanoPlugin(p tree, name string) {
	a, ok := volcanoPluginTable[name]
	if !ok {
		b.unknown(p.get("name"), strconv.Quote(name)+" is not a plugin of Volcano; a plugin of your own (--plugins-dir) has no counterpart: write it as a plugin of kube-scheduler")
		return
	}
	b.row(p, p.get("name").line(), p.path, name, a)
	if name == "binpack" && !p.get("arguments", "binpack.weight").has() {
		b.set(p, names.PluginScore, 1, "volcano", "binpack.weight") // its default
	}
	for _, e := range p.entries() {
		switch {
		case e.key == "name":
		case e.key == "arguments":
			if !e.isMap() && !e.isNull() {
				b.problem(e.problem("must be a mapping"))
			}
			for _, arg := range e.entries() {
				b.volcanoArgument(name, arg)
			}
			b.volcanoNodeorder(name, e.tree)
		case enableField.MatchString(e.key):
			b.volcanoSwitch(name, e)
		default:
			b.unknown(e.tree, "not a field of a plugin, which has name, arguments and switches such as enablePreemptable")
		}
	}
}

// volcanoSwitch is one of the points at which a plugin of Volcano can be switched off.
func (b *builder) volcanoSwitch(plugin string, e entry) {
	on, err := strconv.ParseBool(e.text())
	switch {
	case err != nil:
		b.problem(e.problem("%q is not true or false", e.text()))
	case e.key == "enableHierarchy" && on:
		b.of(e.tree, answer{Differs, "Queue spec.parent", "hierarchies are spec.parent of Queues; annotations volcano.sh/hierarchy and hierarchy-weights are not read"})
	case on:
		b.of(e.tree, answer{Always, "", ""})
	case plugin == "gang" && (e.key == "enablePreemptable" || e.key == "enableReclaimable"):
		b.of(e.tree, answer{Always, "", "gangs may be evicted, always whole or down to their minimum: no switch is needed for preemption to work"})
	case plugin == "drf" && (e.key == "enablePreemptable" || e.key == "enableReclaimable"):
		b.of(e.tree, answer{Always, "", "shares inside a queue evict nothing"})
	default:
		b.of(e.tree, answer{None, "", "parts of a plugin cannot be switched off; what it does stays on"})
	}
}

// nodeorderScores are kube-scheduler's names for nodeorder's weights.
var nodeorderScores = map[string]string{
	"nodeaffinity.weight": "NodeAffinity", "podaffinity.weight": "InterPodAffinity", "tainttoleration.weight": "TaintToleration",
	"imagelocality.weight": "ImageLocality", "podtopologyspread.weight": "PodTopologySpread", "balancedresource.weight": "NodeResourcesBalancedAllocation",
}

// volcanoArgument is one argument of a plugin.
func (b *builder) volcanoArgument(plugin string, e entry) {
	switch {
	case plugin == "binpack" && strings.HasPrefix(e.key, "binpack."), plugin == "deviceshare" && strings.HasPrefix(e.key, "deviceshare."):
		b.volcanoCarried(e)
	case plugin == "nodeorder" && nodeorderScores[e.key] != "":
		if n, ok := b.whole(e.tree, 0, 1000); ok {
			b.score(nodeorderScores[e.key], n)
			b.of(e.tree, answer{Set, "plugins.score: " + nodeorderScores[e.key], "a weight beside GPUScore's 10"})
		}
	case plugin == "nodeorder" && (e.key == "leastrequested.weight" || e.key == "mostrequested.weight"): // together: volcanoNodeorder
	case plugin == "nodeorder" && e.key == "selectorspread.weight":
		b.of(e.tree, answer{Differs, "plugins.score: PodTopologySpread", "replaced by it in Kubernetes itself"})
	case plugin == "sla" && (e.key == "sla-waiting-time" || e.key == "JobWaitingTime"):
		d, err := time.ParseDuration(e.text())
		if err != nil || d <= 0 {
			b.problem(e.problem("%q is not a duration like 1h2m", e.text()))
			return
		}
		b.set(e.tree, names.PluginQueue, d.String(), "patience")
		b.of(e.tree, answer{Set, "GPUQueue.patience", "so long a gang waits before nodes are kept for it; annotations sla-waiting-time of single jobs are not read"})
	case plugin == "resource-strategy-fit":
		b.volcanoStrategy(e)
	case plugin == "predicates" && strings.HasPrefix(e.key, "predicate."):
		b.volcanoPredicate(e)
	case plugin == "overcommit" && e.key == "overcommit-factor":
		b.of(e.tree, answer{None, "", "not needed: pods exist at once and hold nothing while they wait"})
	default:
		a := volcanoPluginTable[plugin]
		if a.verdict == Always || a.verdict == Set {
			a = answer{None, "", "no such setting; " + a.do}
		}
		b.of(e.tree, a)
	}
}

// volcanoCarried are arguments that GPUScore takes under their own names.
func (b *builder) volcanoCarried(e entry) {
	value := e.text()
	bad := map[string]string{
		"deviceshare.GPUExclusiveRules":           "write tangram.dev/device-affinity in the pods that must not share a card",
		"deviceshare.KnownGeometriesCMName":       "not needed: MIG profiles come from the driver, or from Tangram's own table",
		"deviceshare.KnownGeometriesCMNamespace":  "not needed: MIG profiles come from the driver, or from Tangram's own table",
		"deviceshare.AscendMindClusterVNPUEnable": "huawei.com/npu-core is read without it",
	}
	off := strings.EqualFold(value, "false")
	switch {
	case bad[e.key] != "":
		b.of(e.tree, answer{None, "", bad[e.key]})
	case e.key == "deviceshare.NodeLockEnable" && !off:
		b.of(e.tree, answer{None, "", "no node lock is needed: the record is written with the Binding"})
	case strings.HasSuffix(e.key, "Enable") && e.key != "deviceshare.NodeLockEnable" && off:
		b.of(e.tree, answer{None, "", "all vocabularies are on; a pod gets what it asks for"})
	case e.key == "deviceshare.ScheduleWeight":
		if n, ok := b.whole(e.tree, 0, 1000); ok && n > 0 {
			b.set(e.tree, names.PluginScore, n, "weights", "utilization")
			b.of(e.tree, answer{Set, "GPUScore.weights.utilization", "weighed against the other objectives; only proportions matter"})
		} else if ok {
			b.of(e.tree, answer{Always, "", "0 has no effect"})
		}
	default:
		var v any = value
		if n, err := strconv.Atoi(value); err == nil {
			v = n
		} else if flag, err := strconv.ParseBool(value); err == nil {
			v = flag
		}
		b.set(e.tree, names.PluginScore, v, "volcano", e.key)
		b.of(e.tree, answer{Set, "GPUScore.volcano[" + e.key + "]", ""})
	}
}

// volcanoNodeorder is what leastrequested and mostrequested mean together.
func (b *builder) volcanoNodeorder(plugin string, args tree) {
	least, most := args.get("leastrequested.weight"), args.get("mostrequested.weight")
	if plugin != "nodeorder" || !least.has() && !most.has() {
		return
	}
	l, m := 1, 0 // Volcano's defaults
	for _, x := range []struct {
		t    tree
		into *int
	}{{least, &l}, {most, &m}} {
		if !x.t.has() {
			continue
		}
		n, ok := b.whole(x.t, 0, 1000)
		if !ok {
			return
		}
		*x.into = n
	}
	kind, weight := "LeastAllocated", l
	if m > l {
		kind, weight = "MostAllocated", m
	}
	for _, t := range []tree{least, most} {
		if t.has() {
			b.of(t, answer{Set, "NodeResourcesFit.scoringStrategy: " + kind, "the larger of leastrequested and mostrequested; where pods are scored on several nodes"})
		}
	}
	b.score("NodeResourcesFit", weight)
	b.set(args, "NodeResourcesFit", "kubescheduler.config.k8s.io/v1", "apiVersion")
	b.set(args, "NodeResourcesFit", "NodeResourcesFitArgs", "kind")
	b.set(args, "NodeResourcesFit", kind, "scoringStrategy", "type")
	b.set(args, "NodeResourcesFit", []any{map[string]any{"name": "cpu", "weight": 1}, map[string]any{"name": "memory", "weight": 1}}, "scoringStrategy", "resources")
}

func (b *builder) score(name string, weight int) {
	if b.Result.scores == nil {
		b.Result.scores = map[string]int{}
	}
	b.Result.scores[name] = weight
}

// whole reads a whole number within bounds; numbers may be quoted.
func (b *builder) whole(t tree, least, most int) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(t.text()))
	if err != nil || n < least || n > most {
		b.problem(t.problem("%q is not a whole number from %d to %d", t.text(), least, most))
		return 0, false
	}
	return n, true
}

// volcanoStrategy is an argument of resource-strategy-fit.
func (b *builder) volcanoStrategy(e entry) {
	if e.key != "resources" || !e.isMap() {
		b.of(e.tree, answer{None, "", "GPUScore already keeps CPU and memory beside free GPUs, and pods without GPUs off GPU nodes"})
		return
	}
	for _, r := range e.entries() {
		kind := r.get("type")
		if !slices.Contains([]string{"MostAllocated", "LeastAllocated"}, kind.text()) {
			b.problem(kind.problem("%q is not MostAllocated or LeastAllocated", kind.text()))
			continue
		}
		if r.key != names.ResourceNVIDIA {
			b.row(r.tree, r.keyLine(), r.path, kind.text(), answer{Differs, "NodeResourcesFit.scoringStrategy", "one direction for all resources: write pluginConfig of NodeResourcesFit by hand"})
			continue
		}
		placement := map[string]string{"MostAllocated": "binpack", "LeastAllocated": "spread"}[kind.text()]
		b.set(r.tree, names.PluginScore, placement, "placement")
		b.row(r.tree, r.keyLine(), r.path, kind.text(), answer{Set, "GPUScore.placement: " + placement, "weights of resources are not taken over"})
	}
}

// volcanoPredicate is an argument of predicates.
func (b *builder) volcanoPredicate(e entry) {
	on, err := strconv.ParseBool(e.text())
	switch name := strings.TrimPrefix(e.key, "predicate."); {
	case name == "GPUSharingEnable" || name == "GPUNumberEnable" || name == "VGPUEnable":
		b.of(e.tree, answer{Always, "", "all vocabularies are on"})
	case name == "CacheEnable":
		b.of(e.tree, answer{Always, "", "what filters refuse is remembered"})
	case strings.HasPrefix(name, "ProportionalEnable") || strings.HasPrefix(name, "resources"):
		b.of(e.tree, answer{Differs, "", "GPUScore steers pods without GPUs away from CPU and memory that free GPUs need; amounts are not set"})
	case err == nil && on:
		b.of(e.tree, answer{Always, "", "kube-scheduler's own filter"})
	case err == nil:
		b.of(e.tree, answer{Differs, "plugins.multiPoint.disabled", "kube-scheduler's own filter stays on; to switch it off, name it under plugins.multiPoint.disabled"})
	default:
		b.problem(e.problem("%q is not true or false", e.text()))
	}
}

// volcanoConfigurations are arguments of actions.
func (b *builder) volcanoConfigurations(t tree) {
	if !t.isList() && !t.isNull() {
		b.problem(t.problem("must be a list"))
	}
	for _, c := range t.items() {
		name := c.get("name").text()
		if _, known := volcanoActionTable[name]; !known && name != "init-params" {
			b.unknown(c, strconv.Quote(name)+" is not an action of Volcano")
			continue
		}
		for _, e := range c.entries() {
			switch e.key {
			case "name":
			case "arguments":
				for _, arg := range e.entries() {
					b.of(arg.tree, volcanoActionArgument(name, arg.key))
				}
			default:
				b.unknown(e.tree, "a configuration has name and arguments")
			}
		}
	}
}

func volcanoActionArgument(action, key string) answer {
	switch {
	case action == "enqueue":
		return answer{None, "", "not needed: pods exist at once and hold nothing while they wait"}
	case action == "init-params":
		return answer{Always, "", "virtual NPUs are read without it"}
	case strings.HasPrefix(strings.ToLower(key), "predicateerrorcache"):
		return answer{Always, "", "what filters refuse is remembered"}
	case strings.HasPrefix(action, "preempt") || strings.HasPrefix(action, "gang") || action == "reclaim":
		return answer{Always, "", "victims are searched so that the gang is proven to fit, topology included; bounds are counted steps"}
	}
	return answer{None, "", "no such setting"}
}
