package dialect

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
)

// KAIQueues are KAI's and Run:ai's queues. They are in one tree with Volcano's.
var KAIQueues = schema.GroupVersionResource{Group: "scheduling.run.ai", Version: "v2", Resource: "queues"}

// kaiPriority is the priority of a KAI Queue that gives none. It counts as 0, which is what
// other queues have that give none: both kinds may be children of one queue.
const kaiPriority = 100

// kaiResources are what a KAI Queue divides: per is how many of the arbiter's units one of
// KAI's is, as a fraction. CPU is in thousandths in both, memory in MB and MiB.
var kaiResources = []struct {
	word     string
	resource arbiter.Resource
	mul, div float64
}{
	{"cpu", engine.CPU, 1, 1},
	{"memory", engine.Memory, 1e6, 1 << 20},
	{"gpu", engine.GPU(model.NVIDIA), model.FullMilli, 1},
}

// unlimitedKAI stands for no limit, and for a quota of all there is.
const unlimitedKAI = -1

// KAIQueueOf reads a Queue of scheduling.run.ai. An error names the field.
//
//	quota            deserved; -1: by weight
//	limit            capability; -1: none; left out: the quota, as in KAI
//	overQuotaWeight  weight, of gpu where it is given
//	priority         priority, 100 is the middle
//	preemptMinRuntime, reclaimMinRuntime   the longer of both: how long a job is left alone
//
// A resource that is left out is not limited.
func KAIQueueOf(o *unstructured.Unstructured) (arbiter.Queue, error) {
	q := arbiter.Queue{Name: o.GetName(), Weight: 1, Reclaimable: true, Order: arbiter.Priority}
	var err error
	spec := reader{o.Object, &err}
	if q.Parent = spec.text("spec", "parentQueue"); q.Parent == arbiter.Root {
		q.Parent = ""
	}
	if n, ok := spec.number("spec", "priority"); ok {
		q.Priority = int32(max(-1<<30, min(n, 1<<30))) - kaiPriority
	}
	weights := map[string]float64{}
	for _, r := range kaiResources {
		at := func(field string) []string { return []string{"spec", "resources", r.word, field} }
		if _, ok, _ := unstructured.NestedMap(o.Object, "spec", "resources", r.word); !ok {
			continue
		}
		quota, _ := spec.float(at("quota")...)
		limit, hasLimit := spec.float(at("limit")...)
		if !hasLimit {
			limit = quota
		}
		for _, x := range []struct {
			field string
			n     float64
		}{{"quota", quota}, {"limit", limit}} {
			field, n := x.field, x.n
			if (n < 0 && n != unlimitedKAI || n*r.mul/r.div > float64(arbiter.MaxAmount)) && err == nil {
				err = fmt.Errorf("spec.resources.%s.%s: %v is not an amount, nor -1 for no limit", r.word, field, n)
			}
		}
		if limit != unlimitedKAI {
			q.Capability = with(q.Capability, r.resource, int64(limit*r.mul/r.div))
			if quota != unlimitedKAI {
				quota = min(quota, limit)
			}
		}
		if quota != unlimitedKAI {
			q.Deserved = with(q.Deserved, r.resource, int64(quota*r.mul/r.div))
		}
		if w, ok := spec.float(at("overQuotaWeight")...); ok {
			weights[r.word] = w
		}
	}
	if err == nil {
		q.Weight, err = kaiWeight(weights)
	}
	for _, field := range []string{"preemptMinRuntime", "reclaimMinRuntime"} {
		if text := spec.text("spec", field); text != "" {
			d, bad := time.ParseDuration(text)
			if bad != nil || d < 0 {
				spec.note(fmt.Errorf("%q is not a duration like 5m", text), []string{"spec", field})
			}
			q.MinRuntime = max(q.MinRuntime, d)
		}
	}
	if bad := annotatedQueue(&q, o); err == nil {
		err = bad
	}
	return q, err
}

// kaiWeight is the one weight of a queue: KAI has one for each resource, and they must
// agree where they differ from 0 and GPUs have one.
func kaiWeight(weights map[string]float64) (int64, error) {
	weight, word := 1.0, ""
	for _, r := range []string{"memory", "cpu", "gpu"} {
		if w, ok := weights[r]; ok {
			weight, word = w, r
		}
	}
	field := "spec.resources." + word + ".overQuotaWeight"
	for _, other := range slices.Sorted(maps.Keys(weights)) {
		if w := weights[other]; w != weight && w > 0 {
			return 1, fmt.Errorf("spec.resources.%s.overQuotaWeight: %v, but %s is %v, and a queue has one weight here", other, w, field, weight)
		}
	}
	if weight != float64(int64(weight)) || weight < 0 || weight > arbiter.MaxWeight {
		return 1, fmt.Errorf("%s: %v is not a whole number from 0 to %d", field, weight, arbiter.MaxWeight)
	}
	return max(1, int64(weight)), nil
}

// with adds an amount to a map that may be nil.
func with(m map[arbiter.Resource]int64, r arbiter.Resource, n int64) map[arbiter.Resource]int64 {
	if m == nil {
		m = map[arbiter.Resource]int64{}
	}
	m[r] = n
	return m
}

// float reads a number that may have a fraction.
func (r reader) float(path ...string) (float64, bool) {
	v, ok, err := unstructured.NestedFieldNoCopy(r.object, path...)
	if err != nil || !ok {
		return 0, false
	}
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	r.note(fmt.Errorf("%v is not a number", v), path)
	return 0, false
}
