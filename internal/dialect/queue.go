package dialect

import (
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

// Annotations of a Queue for what Volcano's type has no field for.
const (
	annotationOrder      = names.AnnotationOrder
	annotationAging      = names.AnnotationAging
	annotationNamespaces = names.AnnotationNamespaces
	// modelPrefix makes a resource name of a GPU model: gpu.tangram.dev/a100.
	modelPrefix = "gpu." + names.Group + "/"
)

// QueueOf reads a Volcano Queue. An error names the field.
func QueueOf(o *unstructured.Unstructured) (arbiter.Queue, error) {
	q := arbiter.Queue{Name: o.GetName(), Weight: 1, Reclaimable: true, Order: arbiter.Priority}
	if q.Name == arbiter.Root {
		return q, nil
	}
	var err error
	spec := reader{o.Object, &err}
	q.Parent = spec.text("spec", "parent")
	if q.Parent == arbiter.Root {
		q.Parent = ""
	}
	if n, ok := spec.number("spec", "weight"); ok {
		if q.Weight = n; n < 1 {
			return q, fmt.Errorf("spec.weight: %d is below 1", n)
		}
	}
	if n, ok := spec.number("spec", "priority"); ok {
		q.Priority = int32(n)
	}
	if b, ok, _ := unstructured.NestedBool(o.Object, "spec", "reclaimable"); ok {
		q.Reclaimable = b
	}
	q.Capability = spec.amounts("spec", "capability")
	q.Deserved = spec.amounts("spec", "deserved")
	q.Guarantee = spec.amounts("spec", "guarantee", "resource")
	state := spec.text("status", "state")
	q.Closed = state == "Closed" || state == "Closing"
	if bad := annotatedQueue(&q, o); bad != nil {
		return q, bad
	}
	return q, err
}

// annotatedQueue reads Tangram's own annotations of a queue of any kind.
func annotatedQueue(q *arbiter.Queue, o metav1.Object) error {
	if text, ok := o.GetAnnotations()[annotationOrder]; ok {
		if q.Order, ok = arbiter.ParsePolicy(text); !ok {
			return fmt.Errorf("metadata.annotations[%s]: %q is not fifo, priority, sjf or roundrobin", annotationOrder, text)
		}
	}
	if text, ok := o.GetAnnotations()[annotationAging]; ok {
		d, bad := time.ParseDuration(text)
		if bad != nil || d == 0 {
			return fmt.Errorf("metadata.annotations[%s]: %q is not a duration", annotationAging, text)
		}
		q.Aging = d
	}
	if text, ok := o.GetAnnotations()[annotationNamespaces]; ok {
		if q.Namespaces, ok = QueueNamespaces(o); !ok {
			return fmt.Errorf("metadata.annotations[%s]: %q is not a list of namespaces like team-a, team-b", annotationNamespaces, text)
		}
	}
	return nil
}

// QueueNamespaces are the namespaces whose pods a Queue takes, sorted; nil when it takes
// those of all. False: the list is invalid. An empty list is: it is most likely a mistake,
// and a queue that takes no pods is a closed one.
func QueueNamespaces(queue metav1.Object) (list []string, ok bool) {
	text, ok := queue.GetAnnotations()[annotationNamespaces]
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

// reader reads fields of an unstructured object; err keeps the first invalid one.
type reader struct {
	object map[string]any
	err    *error
}

func (r reader) text(path ...string) string {
	s, _, err := unstructured.NestedString(r.object, path...)
	r.note(err, path)
	return s
}

func (r reader) number(path ...string) (int64, bool) {
	v, ok, err := unstructured.NestedFieldNoCopy(r.object, path...)
	if err != nil || !ok {
		return 0, false
	}
	switch n := v.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), true
	}
	r.note(fmt.Errorf("%v is not a number", v), path)
	return 0, false
}

// amounts reads a list of resources into the names and units of Charge.
func (r reader) amounts(path ...string) map[arbiter.Resource]int64 {
	list, ok, err := unstructured.NestedMap(r.object, path...)
	r.note(err, path)
	if !ok {
		return nil
	}
	out := map[arbiter.Resource]int64{}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q, err := ParseQuantity(fmt.Sprint(list[name]))
		if err != nil {
			r.note(fmt.Errorf("%v is not a quantity", list[name]), append(slices.Clone(path), name))
			continue
		}
		if q.Sign() < 0 {
			r.note(fmt.Errorf("%v is negative", list[name]), append(slices.Clone(path), name))
			continue
		}
		if tooMuch(name, q) {
			r.note(fmt.Errorf("%v is too much", list[name]), append(slices.Clone(path), name))
			continue
		}
		countAmount(out, name, q)
	}
	return out
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

// countAmount adds an amount of a resource in the arbiter's units: GPUs and CPUs in
// thousandths, memory in MiB, others as they are.
func countAmount(to map[arbiter.Resource]int64, name string, q resource.Quantity) {
	switch {
	case name == "cpu":
		to[engine.CPU] += q.MilliValue()
		return
	case name == "memory":
		to[engine.Memory] += q.Value() >> 20
		return
	case strings.HasPrefix(name, modelPrefix):
		to[engine.Model(limitedModel(strings.TrimPrefix(name, modelPrefix)).Name())] += q.MilliValue()
		return
	}
	for _, w := range whole {
		if string(w.resource) == name {
			to[engine.GPU(w.vendor)] += q.MilliValue()
			return
		}
	}
	to[arbiter.Resource(resourcePrefix+canonical(name))] += q.Value()
}

// limitedModel is the model that a limit is about.
func limitedModel(name string) model.GPUModel {
	if strings.Contains(strings.ToLower(name), "ascend") {
		return ascendModel(name)
	}
	return model.ParseModel(name)
}

func (r reader) note(err error, path []string) {
	if err != nil && *r.err == nil {
		*r.err = fmt.Errorf("%s: %w", strings.Join(path, "."), err)
	}
}
