package dialect

import (
	"cmp"
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
	spec := readerOf(o).in("spec")
	if q.Parent = spec.text("parentQueue"); q.Parent == arbiter.Root {
		q.Parent = ""
	}
	if n, ok := spec.number("priority"); ok {
		q.Priority = int32(max(-1<<30, min(n, 1<<30))) - kaiPriority
	}
	weights := map[string]float64{}
	for _, r := range kaiResources {
		of := spec.in("resources." + r.word)
		if of.object == nil {
			continue
		}
		quota, _ := of.float("quota")
		limit, hasLimit := of.float("limit")
		if !hasLimit {
			limit = quota
		}
		for i, n := range []float64{quota, limit} { // a limit that is left out is the quota
			if n < 0 && n != unlimitedKAI || n*r.mul/r.div > float64(arbiter.MaxAmount) {
				of.fail([]string{"quota", "limit"}[i], "%v is not an amount, nor -1 for no limit", n)
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
		if w, ok := of.float("overQuotaWeight"); ok {
			weights[r.word] = w
		}
	}
	q.Weight = kaiWeight(spec.in("resources"), weights)
	q.MinRuntime = max(spec.duration("preemptMinRuntime"), spec.duration("reclaimMinRuntime"))
	return q, cmp.Or(spec.err(), annotatedQueue(&q, o))
}

// duration reads how long something takes; 0 when the object does not say it.
func (r reader) duration(path string) time.Duration {
	text := r.text(path)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		r.fail(path, "%q is not a duration like 5m", text)
	}
	return d
}

// kaiWeight is the one weight of a queue: those of KAI's resources must agree where they are not 0.
func kaiWeight(of reader, weights map[string]float64) int64 {
	weight, word := 1.0, ""
	for _, r := range []string{"memory", "cpu", "gpu"} {
		if w, ok := weights[r]; ok {
			weight, word = w, r
		}
	}
	field := word + ".overQuotaWeight"
	for _, other := range slices.Sorted(maps.Keys(weights)) {
		if w := weights[other]; w != weight && w > 0 {
			of.fail(other+".overQuotaWeight", "%v, but %s%s is %v, and a queue has one weight here", w, of.at, field, weight)
			return 1
		}
	}
	if weight != float64(int64(weight)) || weight < 0 || weight > arbiter.MaxWeight {
		of.fail(field, "%v is not a whole number from 0 to %d", weight, arbiter.MaxWeight)
		return 1
	}
	return max(1, int64(weight))
}

// with adds an amount to a map that may be nil.
func with(m map[arbiter.Resource]int64, r arbiter.Resource, n int64) map[arbiter.Resource]int64 {
	if m == nil {
		m = map[arbiter.Resource]int64{}
	}
	m[r] = n
	return m
}
