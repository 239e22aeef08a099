package dialect

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
)

// Kinds of other projects that define gangs and queues. They are read as unstructured
// objects, so that the scheduler does not depend on those projects' code.
var (
	Queues    = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues"}
	PodGroups = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}
	// KubeGroups are Kubernetes' own PodGroups (alpha in 1.36).
	KubeGroups  = schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1alpha2", Resource: "podgroups"}
	Priorities  = schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}
	Jobs        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	JobSets     = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
	RayClusters = schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}
	// PluginGroups are those of the scheduler-plugins project (coscheduling).
	PluginGroups     = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
	LeaderWorkerSets = schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"}
	StatefulSets     = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
)

// modelPrefix makes a resource name of a GPU model: gpu.tangram.dev/a100.
const modelPrefix = "gpu." + names.Group + "/"

// QueueOf reads a Volcano Queue. An error names the field.
func QueueOf(o *unstructured.Unstructured) (arbiter.Queue, error) {
	q := arbiter.Queue{Name: o.GetName(), Weight: 1, Reclaimable: true, Order: arbiter.Priority}
	if q.Name == arbiter.Root {
		return q, nil
	}
	r := readerOf(o)
	q.Parent = r.text("spec.parent")
	if q.Parent == arbiter.Root {
		q.Parent = ""
	}
	if n, ok := r.number("spec.weight"); ok {
		if q.Weight = n; n < 1 {
			return q, fmt.Errorf("spec.weight: %d is below 1", n)
		}
	}
	if n, ok := r.number("spec.priority"); ok {
		q.Priority = int32(n)
	}
	if value, _ := r.value("spec.reclaimable"); value == false {
		q.Reclaimable = false
	}
	q.Capability = r.amounts("spec.capability")
	q.Deserved = r.amounts("spec.deserved")
	q.Guarantee = r.amounts("spec.guarantee.resource")
	state := r.text("status.state")
	q.Closed = state == "Closed" || state == "Closing"
	if bad := annotatedQueue(&q, o); bad != nil {
		return q, bad
	}
	return q, r.err()
}

// annotatedQueue reads Tangram's own annotations of a queue of any kind.
func annotatedQueue(q *arbiter.Queue, o metav1.Object) error {
	words := o.GetAnnotations()
	if text, ok := words[names.AnnotationOrder]; ok {
		var err error
		if q.Order, err = arbiter.ParsePolicy(text); err != nil {
			return fmt.Errorf("%s: %w", annotation(names.AnnotationOrder), err)
		}
	}
	if text, ok := words[names.AnnotationAging]; ok {
		d, bad := time.ParseDuration(text)
		if bad != nil || d == 0 {
			return fmt.Errorf("%s: %q is not a duration", annotation(names.AnnotationAging), text)
		}
		q.Aging = d
	}
	if text, ok := words[names.AnnotationNamespaces]; ok {
		if q.Namespaces, ok = QueueNamespaces(o); !ok {
			return fmt.Errorf("%s: %q is not a list of namespaces like team-a, team-b", annotation(names.AnnotationNamespaces), text)
		}
	}
	return nil
}

// QueueNamespaces are the namespaces whose pods a Queue takes, sorted; nil for all. False: the list is
// invalid, as an empty one is, which is most likely a mistake.
func QueueNamespaces(queue metav1.Object) (list []string, ok bool) {
	text, ok := queue.GetAnnotations()[names.AnnotationNamespaces]
	if !ok {
		return nil, true
	}
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); len(validation.IsDNS1123Label(name)) > 0 {
			return nil, false
		}
		list = append(list, name)
	}
	slices.Sort(list)
	return slices.Compact(list), true
}

// Amounts reads a list of resources into the names and units of Charge. What no limit can
// state (negative, too much) is left out: the scheduler reports it.
func Amounts(list v1.ResourceList) map[arbiter.Resource]int64 {
	out := map[arbiter.Resource]int64{}
	for name, q := range list {
		if q.Sign() >= 0 && !tooMuch(string(name), q) {
			countAmount(out, string(name), q)
		}
	}
	return out
}

// tooMuch says whether an amount is beyond what can be added up.
func tooMuch(name string, q resource.Quantity) bool {
	return q.Value() > math.MaxInt64/model.FullMilli || name != "memory" && q.Value() > arbiter.MaxAmount
}

// countAmount adds an amount in the arbiter's units: GPUs and CPUs in thousandths, memory in MiB, others as they are.
func countAmount(to map[arbiter.Resource]int64, name string, q resource.Quantity) {
	switch vendor := vendorOf(name); {
	case name == "cpu":
		to[engine.CPU] += q.MilliValue()
	case name == "memory":
		to[engine.Memory] += q.Value() >> 20
	case strings.HasPrefix(name, modelPrefix):
		to[engine.Model(limitedModel(strings.TrimPrefix(name, modelPrefix)).Name())] += q.MilliValue()
	case vendor != "":
		to[engine.GPU(vendor)] += q.MilliValue()
	default:
		to[arbiter.Resource(resourcePrefix+canonical(name))] += q.Value()
	}
}

// limitedModel is the model that a limit is about.
func limitedModel(name string) model.GPUModel {
	if strings.Contains(strings.ToLower(name), "ascend") {
		return ascendModel(name)
	}
	return model.ParseModel(name)
}

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
