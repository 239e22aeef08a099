package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// kueueRules: KIND/FIELD of spec. Quotas, cohorts and weights are read by kueueTranslation.
var kueueRules = []rule{
	{"ClusterQueue/namespaceSelector", "", Set, "annotation tangram.dev/namespaces", "the namespaces that have a LocalQueue for it; without one, all"},
	{"ClusterQueue/queueingStrategy", "BestEffortFIFO", Always, "", "by priority, then by age; jobs pass those that do not fit, for which nodes are kept after a while"},
	{"ClusterQueue/queueingStrategy", "StrictFIFO", Differs, "GPUQueue.backfill: false", "for all queues at once; with backfill on, a job that does not fit gets a reservation instead of blocking its queue"},
	{"ClusterQueue/stopPolicy", "|None", Always, "", ""},
	{"ClusterQueue/stopPolicy", "", Differs, "Command CloseQueue", "a closed queue starts nothing new: kubectl apply a bus.volcano.sh Command with action: CloseQueue; running jobs are not ended"},
	{"ClusterQueue/flavorFungibility", "", None, "", "flavors are not tried in turn: a pod goes where its nodeSelector, affinity and GPU model let it"},
	{"ClusterQueue/admissionChecks|admissionChecksStrategy", "", None, "", "keep Kueue for admission checks (ProvisioningRequest, MultiKueue): docs/guides/kueue.md"},
	{"ClusterQueue/admissionScope", "", Differs, "", "what queues used above their share is paid back from their balance; the rate is not a setting"},
	{"ClusterQueue/preemption/reclaimWithinCohort", "", Always, "", "what a queue uses above its share is taken back for the others, lowest priority first"},
	{"ClusterQueue/preemption/withinClusterQueue", "Never", Differs, "preemptionPolicy: Never", "preemption is on or off for all queues; PriorityClasses with preemptionPolicy: Never preempt nothing"},
	{"ClusterQueue/preemption/withinClusterQueue", "", Always, "", "higher priorities preempt lower ones of their queue"},
	{"ClusterQueue/preemption/borrowWithinCohort", "", None, "", "a queue above its share preempts nothing of others"},
	{"LocalQueue/stopPolicy", "|None", Always, "", ""},
	{"LocalQueue/stopPolicy", "", None, "", "a queue is closed for all namespaces or for none"},
	{"LocalQueue/fairSharing", "", None, "", "namespaces of one queue go by priority and age; for shares of their own give them queues of their own"},
	{"ResourceFlavor/nodeLabels", "", Differs, "nodeSelector", "write the labels as nodeSelector of the pods: no scheduler adds them"},
	{"ResourceFlavor/nodeTaints", "", Always, "", "taints of the nodes themselves count"},
	{"ResourceFlavor/tolerations", "", Differs, "tolerations", "write them into the pods: no scheduler adds them"},
	{"ResourceFlavor/topologyName", "", Always, "", "Topology objects of Kueue are read as levels of domains"},
}

// kueueWorld is what Kueue's objects of all inputs say together.
type kueueWorld struct {
	cohorts, queues, locals, flavors map[string]node // locals by namespace/name
}

// add takes an object of Kueue's; false for kinds that are no queues.
func (w *kueueWorld) add(kind string, d node) bool {
	name := d.Get("metadata", "name").Text()
	into := map[string]*map[string]node{"ClusterQueue": &w.queues, "LocalQueue": &w.locals, "Cohort": &w.cohorts, "ResourceFlavor": &w.flavors}[kind]
	if into == nil {
		return false
	}
	if kind == "LocalQueue" {
		name = namespaceOf(d) + "/" + name
	}
	if *into == nil {
		*into = map[string]node{}
	}
	(*into)[name] = d
	return true
}

func namespaceOf(d node) string { return cmp.Or(d.Get("metadata", "namespace").Text(), "default") }

// kueue translates Kueue's queues to Queue objects: a Cohort has children, a ClusterQueue jobs.
func (b *builder) kueue(w *kueueWorld) {
	parents := map[string]bool{}
	for _, q := range w.queues {
		parents[cohortOf(q).Text()] = true
	}
	for name, c := range w.cohorts {
		parents[name], parents[cohortParent(c).Text()] = true, true
	}
	delete(parents, "")
	called := map[string]string{} // cohort to queue
	for name := range parents {
		if called[name] = name; w.queues[name].Has() || name == arbiter.Default || name == arbiter.Root {
			called[name] = "cohort-" + name
		}
	}
	k := kueueTranslation{builder: b, world: w, called: called, weights: w.weightScale()}
	for _, name := range slices.Sorted(maps.Keys(parents)) {
		k.cohort(name)
	}
	for _, name := range slices.Sorted(maps.Keys(w.queues)) {
		k.clusterQueue(name, w.queues[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.locals)) {
		k.localQueue(name, w.locals[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.flavors)) {
		k.flavor(name, w.flavors[name])
	}
	k.preemptionOfAll()
}

// kueueTranslation is the work on one set of objects.
type kueueTranslation struct {
	*builder
	world   *kueueWorld
	called  map[string]string
	weights int64 // thousandths of a weight that are 1 here
}

// firstOf is the first of several spellings of a field that is there.
func firstOf(n node, fields ...string) node {
	for _, f := range fields {
		if x := n.Get("spec", f); x.Has() {
			return x
		}
	}
	return n.Get("spec", fields[0])
}

func weightOf(q node) node     { return q.Get("spec", "fairSharing", "weight") }
func cohortOf(q node) node     { return firstOf(q, "cohortName", "cohort") } // the second in v1beta1
func cohortParent(c node) node { return firstOf(c, "parentName", "parent") } // the second in v1alpha1

// weightScale is the greatest common divisor of all weights in thousandths.
func (w *kueueWorld) weightScale() int64 {
	scale := int64(0)
	for _, set := range []map[string]node{w.cohorts, w.queues} {
		for _, q := range set {
			milli := int64(1000)
			if x, err := dialect.ParseQuantity(weightOf(q).Text()); err == nil {
				milli = x.MilliValue()
			}
			for milli != 0 {
				scale, milli = milli, scale%milli
			}
		}
	}
	return max(1, scale)
}

// emit adds a Queue; names of Queues have at most 63 characters.
func (k *kueueTranslation) emit(n node, name string, annotations, spec map[string]any) {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || len(name) > 63 {
		k.problem(n.Problem("name: %q cannot be the name of a Queue, which has at most 63 characters", name))
		return
	}
	k.Result.queues = append(k.Result.queues, volcanoQueue(name, annotations, spec))
}

func (k *kueueTranslation) weight(q node, spec map[string]any) {
	milli := int64(1000)
	if f := weightOf(q); f.Has() {
		x, ok := k.quantity(f)
		if !ok {
			return
		}
		milli = x.MilliValue()
		k.row(of(f), answer{Set, "Queue spec.weight", "whole numbers: all weights are multiplied alike"})
		if milli == 0 {
			k.row(of(f), answer{Differs, "Queue spec.weight: 1", "a weight is at least 1"})
		}
	}
	spec["weight"] = max(1, milli/k.weights)
}

func (k *kueueTranslation) cohort(name string) {
	c, spec, sum := k.world.cohorts[name], map[string]any{}, quota{}
	inside, alone := c, true // where it is named; whether it is no part of another
	if c.Has() {
		k.row(at{c, objectName(c), ""}, answer{Set, "Queue/" + k.called[name], "a queue with queues below it; jobs go to those"})
		if p := cohortParent(c); p.Text() != "" {
			alone, spec["parent"] = false, k.called[p.Text()]
			k.row(of(p), answer{Set, "Queue spec.parent", ""})
		}
		sum = k.quotas(c.Get("spec", "resourceGroups")).nominal
		for _, e := range c.Get("spec").Entries() {
			if !slices.Contains([]string{"resourceGroups", "parentName", "parent", "fairSharing"}, e.Key) {
				k.unknown(e.Node, "not a field of a Cohort")
			}
		}
	}
	k.weight(c, spec)
	quiet := kueueTranslation{builder: &builder{Report: &Report{}}, world: k.world}
	for _, q := range k.world.queues {
		if cohortOf(q).Text() != name {
			continue
		}
		for r, amount := range quiet.quotas(q.Get("spec", "resourceGroups")).nominal {
			sum.add(r, amount)
		}
		if !c.Has() {
			inside = cohortOf(q)
		}
	}
	for _, other := range k.world.cohorts {
		alone = alone && cohortParent(other).Text() != name
	}
	if alone && len(sum) > 0 {
		spec["capability"] = sum.plain() // members borrow from each other, not from outside
	}
	k.emit(inside, k.called[name], nil, spec)
}

func (k *kueueTranslation) clusterQueue(name string, q node) {
	if name == arbiter.Root {
		k.problem(q.Problem("metadata.name: %q is the queue above all others; rename the ClusterQueue", name))
		return
	}
	k.row(at{q, objectName(q), ""}, answer{Set, "Queue/" + name, ""})
	a, cohort := k.quotas(q.Get("spec", "resourceGroups")), cohortOf(q)
	spec, annotations := map[string]any{"deserved": a.nominal.plain()}, map[string]any{}
	limit := quota{}
	for r, nominal := range a.nominal {
		if alone := cohort.Text() == ""; alone || !a.unbounded[r] {
			limit[r] = nominal
			if !alone {
				limit.add(r, a.borrow[r])
			}
		}
	}
	if len(limit) > 0 {
		spec["capability"] = limit.plain()
	}
	if len(a.keep) > 0 {
		spec["guarantee"] = map[string]any{"resource": a.keep.plain()}
	}
	if cohort.Text() != "" {
		spec["parent"] = k.called[cohort.Text()]
		k.row(of(cohort), answer{Set, "Queue spec.parent", ""})
	}
	k.weight(q, spec)
	none := k.noneReclaims(cohort.Text())
	if policy(q, "reclaimWithinCohort") == "Never" {
		spec["reclaimable"] = !none
	}
	if list := k.namespaces(name); list != "" {
		annotations[names.AnnotationNamespaces] = list
	}
	k.walk(q.Get("spec"), "ClusterQueue", "not a field of a ClusterQueue", func(path string, n node) bool {
		switch path {
		case "ClusterQueue/resourceGroups", "ClusterQueue/cohort", "ClusterQueue/cohortName", "ClusterQueue/fairSharing": // above
			return true
		case "ClusterQueue/preemption/reclaimWithinCohort":
			if n.Text() != "Never" {
				return false
			}
			row := answer{Differs, "Queue spec.reclaimable", "here the queue that has borrowed says whether it gives back, not the one that wants back: others of the cohort reclaim, so this one does, too"}
			if none {
				row = answer{Set, "Queue spec.reclaimable: false", "for all queues of the cohort"}
			}
			k.row(of(n), row)
			return true
		}
		return false
	})
	k.emit(q, name, annotations, spec)
}

// namespaces are those with a LocalQueue for the queue.
func (k *kueueTranslation) namespaces(queue string) string {
	var list []string
	for _, l := range k.world.locals {
		if l.Get("spec", "clusterQueue").Text() == queue {
			list = append(list, namespaceOf(l))
		}
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ",")
}

// policy is one of a ClusterQueue's policies of preemption.
func policy(q node, field string) string {
	return cmp.Or(q.Get("spec", "preemption", field).Text(), "Never")
}

func (k *kueueTranslation) noneReclaims(cohort string) bool {
	for _, q := range k.world.queues {
		if cohortOf(q).Text() == cohort && policy(q, "reclaimWithinCohort") != "Never" {
			return false
		}
	}
	return true
}

// preemptionOfAll: one switch for all queues.
func (k *kueueTranslation) preemptionOfAll() {
	on := false
	for _, q := range k.world.queues {
		on = on || policy(q, "withinClusterQueue") != "Never" || policy(q, "reclaimWithinCohort") != "Never"
	}
	if len(k.world.queues) > 0 {
		k.assign(k.world.queues[slices.Min(slices.Collect(maps.Keys(k.world.queues)))], "GPUQueue.preemption", on)
	}
}

func (k *kueueTranslation) localQueue(name string, l node) {
	target := l.Get("spec", "clusterQueue").Text()
	if target == "" {
		k.problem(l.Problem("spec.clusterQueue: missing"))
		return
	}
	ns, short, _ := strings.Cut(name, "/")
	a := answer{Set, "annotation tangram.dev/namespaces of Queue/" + target,
		fmt.Sprintf("in namespace %s write label tangram.dev/queue: %s in place of kueue.x-k8s.io/queue-name: %s", ns, target, short)}
	if !k.world.queues[target].Has() {
		a.verdict, a.do = Differs, "there is no ClusterQueue "+target+" in the input; "+a.do
	}
	k.row(at{l, objectName(l), ""}, a)
	k.walk(l.Get("spec"), "LocalQueue", "not a field of a LocalQueue", func(path string, _ node) bool { return path == "LocalQueue/clusterQueue" })
}

func (k *kueueTranslation) flavor(name string, f node) {
	if !f.Get("spec").Has() {
		k.row(at{f, objectName(f), ""}, answer{Always, "", "a flavor without labels is all nodes"})
	}
	k.walk(f.Get("spec"), "ResourceFlavor", "not a field of a ResourceFlavor", func(path string, n node) bool {
		m := k.flavorModel(name)
		if path != "ResourceFlavor/nodeLabels" || m == "" {
			return false
		}
		k.row(of(n), answer{Set, "gpu.tangram.dev/" + m, "quota of the model; pods choose it by nodeSelector or nvidia.com/use-gputype"})
		return true
	})
}
