package dialect

import (
	"fmt"
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
