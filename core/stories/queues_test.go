package stories

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
)

// queue NAME [parent=] [weight=] [priority=] [guarantee=A] [deserved=A] [capability=A]
// [reclaimable=no] [closed] [namespaces=(N,...)] [order=POLICY] [aging=D] [min-runtime=D] [gone]:
// amounts are numbers of GPUs, or (8,cpu:4,a100:2).
func queue(w *world) string {
	q := arbiter.Queue{
		Name: w.words()[0], Parent: w.value("parent", ""), Weight: int64(w.number("weight", 1)), Priority: int32(w.number("priority", 0)),
		Guarantee: w.amounts("guarantee"), Deserved: w.amounts("deserved"), Capability: w.amounts("capability"),
		Reclaimable: w.value("reclaimable", "yes") == "yes", Closed: w.has("closed"),
		Aging: w.duration("aging", 0), MinRuntime: w.duration("min-runtime", 0),
	}
	q.Namespaces = w.values("namespaces")
	policy, err := arbiter.ParsePolicy(w.value("order", "priority"))
	if err != nil {
		w.d.Fatalf(w.t, "order: %v", err)
	}
	q.Order = policy
	w.queues = slices.DeleteFunc(w.queues, func(o arbiter.Queue) bool { return o.Name == q.Name })
	if !w.has("gone") {
		w.queues = append(w.queues, q)
	}
	return w.setQueues()
}

// setQueues tells the queues that can be used, and which cannot.
func (w *world) setQueues() string {
	usable, mistakes := arbiter.Usable(w.queues)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(mistakes)) {
		out = append(out, fmt.Sprintf("queue %s: %v\n", name, mistakes[name]))
	}
	return lines(append(out, w.apply(engine.QueuesSet{Queues: usable}))...)
}

// quota NAMESPACE gpus=A: what a namespace may use.
func quota(w *world) string {
	w.quotas[w.words()[0]] = w.amounts("gpus")
	return w.setQuotas()
}

func (w *world) setQuotas() string {
	var list []arbiter.Quota
	for _, name := range slices.Sorted(maps.Keys(w.quotas)) {
		list = append(list, arbiter.Quota{Namespace: name, Hard: w.quotas[name]})
	}
	return w.apply(engine.QuotasSet{Quotas: list})
}
