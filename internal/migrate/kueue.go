package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// kueueWorld is what Kueue's objects of all inputs say together.
type kueueWorld struct {
	cohorts, queues, locals, flavors map[string]tree // locals by namespace/name
}

// kueue translates Kueue's queues to Queue objects: a Cohort is a queue with children, a
// ClusterQueue a queue for jobs.
func (b *builder) kueue(w *kueueWorld) {
	if len(w.queues) == 0 && len(w.cohorts) == 0 && len(w.locals) == 0 {
		b.kueueFlavors(w)
		return
	}
	parents := map[string]bool{}
	for _, q := range w.queues {
		if name := cohortOf(q).text(); name != "" {
			parents[name] = true
		}
	}
	for name, c := range w.cohorts {
		parents[name] = true
		if p := cohortParent(c).text(); p != "" {
			parents[p] = true
		}
	}
	called := map[string]string{} // cohort to queue
	for name := range parents {
		if called[name] = name; w.queues[name].has() || name == arbiter.Default || name == arbiter.Root {
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
	b.kueueFlavors(w)
	k.preemption()
}

// kueueTranslation is the work on one set of objects.
type kueueTranslation struct {
	*builder
	world   *kueueWorld
	called  map[string]string
	weights int64 // thousandths of a weight that are 1 here
}

func cohortOf(q tree) tree {
	if c := q.get("spec", "cohortName"); c.has() {
		return c
	}
	return q.get("spec", "cohort") // v1beta1
}

func cohortParent(c tree) tree {
	if p := c.get("spec", "parentName"); p.has() {
		return p
	}
	return c.get("spec", "parent") // v1alpha1
}

// weightScale is the greatest common divisor of all weights in thousandths.
func (w *kueueWorld) weightScale() int64 {
	scale := int64(0)
	for _, set := range []map[string]tree{w.cohorts, w.queues} {
		for _, q := range set {
			milli := int64(1000)
			if f := q.get("spec", "fairSharing", "weight"); f.has() {
				if x, err := dialect.ParseQuantity(f.text()); err == nil {
					milli = x.MilliValue()
				}
			}
			for a, b := scale, milli; ; {
				if b == 0 {
					scale = a
					break
				}
				a, b = b, a%b
			}
		}
	}
	return max(1, scale)
}

// amounts are the quotas of resource groups: nominal, how much may be borrowed (nil: without
// limit) and how much may not be lent.
type amounts struct {
	nominal, borrow, keep map[string]resource.Quantity
	unbounded             map[string]bool
}

func (k *kueueTranslation) amounts(groups tree) amounts {
	a := amounts{map[string]resource.Quantity{}, map[string]resource.Quantity{}, map[string]resource.Quantity{}, map[string]bool{}}
	add := func(into map[string]resource.Quantity, name string, q resource.Quantity) {
		sum := into[name]
		sum.Add(q)
		into[name] = sum
	}
	for _, g := range groups.items() {
		flavors := g.get("flavors").items()
		for _, f := range flavors {
			flavor := f.get("name").text()
			for _, r := range f.get("resources").items() {
				name := r.get("name").text()
				nominal, ok := k.quantity(r.get("nominalQuota"))
				if name == "" || !ok {
					if name == "" {
						k.problem(r.problem("has no name"))
					}
					continue
				}
				names := []string{name}
				if m := k.flavorModel(flavor); m != "" && name == "nvidia.com/gpu" {
					names = append(names, "gpu.tangram.dev/"+m)
				}
				for _, n := range names {
					add(a.nominal, n, nominal)
				}
				if borrow := r.get("borrowingLimit"); borrow.has() && !borrow.isNull() {
					if x, ok := k.quantity(borrow); ok {
						for _, n := range names {
							add(a.borrow, n, x)
						}
					}
				} else {
					for _, n := range names {
						a.unbounded[n] = true
					}
				}
				if lend := r.get("lendingLimit"); lend.has() && !lend.isNull() {
					if x, ok := k.quantity(lend); ok {
						keep := nominal.DeepCopy()
						keep.Sub(x)
						if keep.Sign() > 0 {
							add(a.keep, name, keep)
						}
					}
				}
				here, do := "Queue spec.deserved["+strings.Join(names, "], [")+"]", ""
				verdict := Set
				if len(flavors) > 1 && len(names) == 1 {
					verdict, do = Differs, "flavors of one resource are added up; nodes of a flavor are chosen by nodeSelector of the pods"
				}
				k.row(r, r.line(), r.path, flavor+": "+name+"="+nominal.String(), answer{verdict, here, do})
			}
		}
	}
	return a
}

func (k *kueueTranslation) quantity(t tree) (resource.Quantity, bool) {
	q, err := dialect.ParseQuantity(t.text())
	if err != nil || q.Sign() < 0 {
		k.problem(t.problem("%q is not an amount", t.text()))
		return q, false
	}
	return q, true
}

// flavorModel is the GPU model that a flavor's node labels name; empty without one.
func (k *kueueTranslation) flavorModel(name string) string {
	for _, e := range k.world.flavors[name].get("spec", "nodeLabels").entries() {
		if slices.Contains([]string{names.LabelNVIDIAProduct, names.LabelAccelerator, names.LabelAMDProduct}, e.key) {
			if m := model.ParseModel(e.text()); m.Known() {
				return m.Name()
			}
		}
	}
	return ""
}

func plain(m map[string]resource.Quantity) map[string]any {
	out := map[string]any{}
	for name, q := range m {
		out[name] = q.String()
	}
	return out
}

// emit adds a Queue; names of Queues have at most 63 characters.
func (k *kueueTranslation) emit(t tree, name string, annotations, spec map[string]any) {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || len(name) > 63 {
		k.problem(t.problem("name: %q cannot be the name of a Queue, which has at most 63 characters", name))
		return
	}
	metadata := map[string]any{"name": name}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	k.Result.queues = append(k.Result.queues, map[string]any{
		"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata, "spec": spec,
	})
}

func (k *kueueTranslation) weight(q tree, spec map[string]any) {
	milli := int64(1000)
	if f := q.get("spec", "fairSharing", "weight"); f.has() {
		x, ok := k.quantity(f)
		if !ok {
			return
		}
		milli = x.MilliValue()
		k.of(f, answer{Set, "Queue spec.weight", "whole numbers: all weights are multiplied alike"})
		if milli == 0 {
			k.row(f, f.line(), f.path, "0", answer{Differs, "Queue spec.weight: 1", "a weight is at least 1"})
		}
	}
	spec["weight"] = max(1, milli/k.weights)
}

func (k *kueueTranslation) cohort(name string) {
	c := k.world.cohorts[name]
	spec := map[string]any{}
	sum := map[string]resource.Quantity{}
	add := func(m map[string]resource.Quantity) {
		for r, q := range m {
			total := sum[r]
			total.Add(q)
			sum[r] = total
		}
	}
	root := true
	if c.has() {
		k.row(c, c.line(), c.objectName(), "", answer{Set, "Queue/" + k.called[name], "a queue with queues below it; jobs go to those"})
		if p := cohortParent(c); p.text() != "" {
			root, spec["parent"] = false, k.called[p.text()]
			k.of(p, answer{Set, "Queue spec.parent", ""})
		}
		add(k.amounts(c.get("spec", "resourceGroups")).nominal)
		k.weight(c, spec)
		k.rest(c, "resourceGroups", "parentName", "parent", "fairSharing")
	} else {
		spec["weight"] = max(1, 1000/k.weights)
	}
	for _, q := range k.world.queues {
		if cohortOf(q).text() == name {
			quiet := kueueTranslation{builder: &builder{Report: &Report{}}, world: k.world}
			add(quiet.amounts(q.get("spec", "resourceGroups")).nominal)
		}
	}
	if root && len(sum) > 0 && !k.hasChildCohorts(name) {
		spec["capability"] = plain(sum) // members borrow from each other, not from outside
	}
	at := c
	if !at.has() {
		for _, q := range k.world.queues {
			if cohortOf(q).text() == name {
				at = cohortOf(q)
			}
		}
	}
	k.emit(at, k.called[name], nil, spec)
}

func (k *kueueTranslation) hasChildCohorts(name string) bool {
	for _, c := range k.world.cohorts {
		if cohortParent(c).text() == name {
			return true
		}
	}
	return false
}

func (k *kueueTranslation) clusterQueue(name string, q tree) {
	if name == arbiter.Root {
		k.problem(q.problem("metadata.name: %q is the queue above all others; rename the ClusterQueue", name))
		return
	}
	spec, annotations := map[string]any{}, map[string]any{}
	k.row(q, q.line(), q.objectName(), "", answer{Set, "Queue/" + name, ""})
	a := k.amounts(q.get("spec", "resourceGroups"))
	spec["deserved"] = plain(a.nominal)
	limit := map[string]resource.Quantity{}
	for r, nominal := range a.nominal {
		if cohortOf(q).text() != "" && a.unbounded[r] {
			continue
		}
		most := nominal.DeepCopy()
		if cohortOf(q).text() != "" {
			most.Add(a.borrow[r])
		}
		limit[r] = most
	}
	if len(limit) > 0 {
		spec["capability"] = plain(limit)
	}
	if len(a.keep) > 0 {
		spec["guarantee"] = map[string]any{"resource": plain(a.keep)}
	}
	if c := cohortOf(q); c.text() != "" {
		spec["parent"] = k.called[c.text()]
		k.of(c, answer{Set, "Queue spec.parent", ""})
	}
	k.weight(q, spec)
	if reclaims(q) == "Never" {
		spec["reclaimable"] = !k.noneReclaims(cohortOf(q).text())
	}
	if list := k.namespaces(name); list != "" {
		annotations["tangram.dev/namespaces"] = list
	}
	k.fields(q)
	k.emit(q, name, annotations, spec)
}

// namespaces are those with a LocalQueue for the queue.
func (k *kueueTranslation) namespaces(queue string) string {
	var list []string
	for _, l := range k.world.locals {
		if ns := cmp.Or(l.get("metadata", "namespace").text(), "default"); l.get("spec", "clusterQueue").text() == queue && !slices.Contains(list, ns) {
			list = append(list, ns)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// reclaims is the policy by which a queue takes back what others of its cohort borrowed.
func reclaims(q tree) string {
	return cmp.Or(q.get("spec", "preemption", "reclaimWithinCohort").text(), "Never")
}

func within(q tree) string {
	return cmp.Or(q.get("spec", "preemption", "withinClusterQueue").text(), "Never")
}

func (k *kueueTranslation) noneReclaims(cohort string) bool {
	for _, q := range k.world.queues {
		if cohortOf(q).text() == cohort && reclaims(q) != "Never" {
			return false
		}
	}
	return true
}

// preemption: one switch for all queues.
func (k *kueueTranslation) preemption() {
	if len(k.world.queues) == 0 {
		return
	}
	on := false
	for _, q := range k.world.queues {
		on = on || within(q) != "Never" || reclaims(q) != "Never"
	}
	for _, name := range slices.Sorted(maps.Keys(k.world.queues)) {
		k.set(k.world.queues[name], names.PluginQueue, on, "preemption")
		break
	}
}

// fields are those of a ClusterQueue besides quotas and weight.
func (k *kueueTranslation) fields(q tree) {
	for _, e := range q.get("spec").entries() {
		switch e.key {
		case "resourceGroups", "cohort", "cohortName", "fairSharing": // above
		case "namespaceSelector":
			k.of(e.tree, answer{Set, "annotation tangram.dev/namespaces", "the namespaces that have a LocalQueue for it; without one, all"})
		case "queueingStrategy":
			switch e.text() {
			case "BestEffortFIFO":
				k.of(e.tree, answer{Always, "", "by priority, then by age; jobs pass those that do not fit, for which nodes are kept after a while"})
			case "StrictFIFO":
				k.of(e.tree, answer{Differs, "GPUQueue.backfill: false", "for all queues at once; with backfill on, a job that does not fit gets a reservation instead of blocking its queue"})
			default:
				k.problem(e.problem("%q is not BestEffortFIFO or StrictFIFO", e.text()))
			}
		case "preemption":
			k.preemptionFields(e, q)
		case "stopPolicy":
			if e.text() == "" || e.text() == "None" {
				k.of(e.tree, answer{Always, "", ""})
			} else {
				k.of(e.tree, answer{Differs, "Command CloseQueue", "a closed queue starts nothing new: kubectl apply a bus.volcano.sh Command with action: CloseQueue; running jobs are not ended"})
			}
		case "flavorFungibility":
			k.of(e.tree, answer{None, "", "flavors are not tried in turn: a pod goes where its nodeSelector, affinity and GPU model let it"})
		case "admissionChecks", "admissionChecksStrategy":
			k.of(e.tree, answer{None, "", "keep Kueue for admission checks (ProvisioningRequest, MultiKueue): docs/guides/kueue.md"})
		case "admissionScope":
			k.of(e.tree, answer{Differs, "", "what queues used above their share is paid back from their balance; the rate is not a setting"})
		default:
			k.unknown(e.tree, "not a field of a ClusterQueue")
		}
	}
}

func (k *kueueTranslation) preemptionFields(e entry, q tree) {
	for _, p := range e.entries() {
		switch {
		case p.key == "reclaimWithinCohort" && p.text() == "Never" && k.noneReclaims(cohortOf(q).text()):
			k.of(p.tree, answer{Set, "Queue spec.reclaimable: false", "for all queues of the cohort"})
		case p.key == "reclaimWithinCohort" && p.text() == "Never":
			k.of(p.tree, answer{Differs, "Queue spec.reclaimable", "here the queue that has borrowed says whether it gives back, not the one that wants back: others of the cohort reclaim, so this one does, too"})
		case p.key == "reclaimWithinCohort":
			k.of(p.tree, answer{Always, "", "what a queue uses above its share is taken back for the others, lowest priority first"})
		case p.key == "withinClusterQueue" && p.text() == "Never":
			k.of(p.tree, answer{Differs, "preemptionPolicy: Never", "preemption is on or off for all queues; PriorityClasses with preemptionPolicy: Never preempt nothing"})
		case p.key == "withinClusterQueue":
			k.of(p.tree, answer{Always, "", "higher priorities preempt lower ones of their queue"})
		case p.key == "borrowWithinCohort":
			k.of(p.tree, answer{None, "", "a queue above its share preempts nothing of others"})
		default:
			k.unknown(p.tree, "not a field of a ClusterQueue's preemption")
		}
	}
}

// rest complains about fields of a Cohort that are not known.
func (k *kueueTranslation) rest(t tree, known ...string) {
	for _, e := range t.get("spec").entries() {
		if !slices.Contains(known, e.key) {
			k.unknown(e.tree, "not a field that is known")
		}
	}
}

func (k *kueueTranslation) localQueue(name string, l tree) {
	target := l.get("spec", "clusterQueue")
	if target.text() == "" {
		k.problem(l.problem("spec.clusterQueue: missing"))
		return
	}
	ns, short, _ := strings.Cut(name, "/")
	a := answer{Set, "annotation tangram.dev/namespaces of Queue/" + target.text(),
		fmt.Sprintf("in namespace %s write label tangram.dev/queue: %s in place of kueue.x-k8s.io/queue-name: %s", ns, target.text(), short)}
	if !k.world.queues[target.text()].has() {
		a.verdict, a.do = Differs, "there is no ClusterQueue "+target.text()+" in the input; "+a.do
	}
	k.row(l, l.line(), l.objectName(), "", a)
	for _, e := range l.get("spec").entries() {
		switch e.key {
		case "clusterQueue":
		case "stopPolicy":
			if e.text() != "" && e.text() != "None" {
				k.of(e.tree, answer{None, "", "a queue is closed for all namespaces or for none"})
			}
		case "fairSharing":
			k.of(e.tree, answer{None, "", "namespaces of one queue go by priority and age; for shares of their own give them queues of their own"})
		default:
			k.unknown(e.tree, "not a field of a LocalQueue")
		}
	}
}

func (b *builder) kueueFlavors(w *kueueWorld) {
	k := kueueTranslation{builder: b, world: w}
	for _, name := range slices.Sorted(maps.Keys(w.flavors)) {
		f := w.flavors[name]
		for _, e := range f.get("spec").entries() {
			switch e.key {
			case "nodeLabels":
				if m := k.flavorModel(name); m != "" {
					b.of(e.tree, answer{Set, "gpu.tangram.dev/" + m, "quota of the model; pods choose it by nodeSelector or nvidia.com/use-gputype"})
				} else {
					b.of(e.tree, answer{Differs, "nodeSelector", "write the labels as nodeSelector of the pods: no scheduler adds them"})
				}
			case "nodeTaints":
				b.of(e.tree, answer{Always, "", "taints of the nodes themselves count"})
			case "tolerations":
				b.of(e.tree, answer{Differs, "tolerations", "write them into the pods: no scheduler adds them"})
			case "topologyName":
				b.of(e.tree, answer{Always, "", "Topology objects of Kueue are read as levels of domains"})
			default:
				b.unknown(e.tree, "not a field of a ResourceFlavor")
			}
		}
		if !f.get("spec").has() {
			b.row(f, f.line(), f.objectName(), "", answer{Always, "", "a flavor without labels is all nodes"})
		}
	}
}
