package replica

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Limits of manifests.
const (
	maxDocuments = 500
	// MaxPods is how many pods a manifest may make.
	MaxPods = 5000
	// maxBytes bounds the pods of a manifest, as JSON, and leastContainer is what a container
	// counts at least, since in memory it takes that much. maxContainers are a pod's.
	maxBytes       = 32 << 20
	leastContainer = 1 << 10
	maxContainers  = 100
	// maxAssumed is how many assumptions are told.
	maxAssumed = 100
)

// problem is what is wrong with one object, naming the field.
type problem struct{ field, message string }

func (p *problem) Error() string {
	if p.field == "" {
		return p.message
	}
	return p.field + ": " + p.message
}

func wrong(field, format string, args ...any) *problem {
	return &problem{field, fmt.Sprintf(format, args...)}
}

// parse reads the objects of a manifest, YAML or JSON, lists unwrapped. An error is about
// the text; what is wrong with one object is found later.
func parse(text []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	left := maxExpanded
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var list []*unstructured.Unstructured
		if err == nil {
			list, err = parseDocument(doc, &left)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if out = append(out, list...); len(out) > maxDocuments {
			return nil, fmt.Errorf("more than %d objects", maxDocuments)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no object")
	}
	return out, nil
}

// parseDocument reads the object of a document, or those of a List; none of an empty one.
// left bounds its aliases.
func parseDocument(doc []byte, left *int) ([]*unstructured.Unstructured, error) {
	if err := boundAliases(doc, left); err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(doc)
	if err != nil || string(bytes.TrimSpace(asJSON)) == "null" {
		return nil, err
	}
	o, err := decodeObject(asJSON)
	if err != nil || o.GetKind() != "List" || o.GetAPIVersion() != "v1" {
		return []*unstructured.Unstructured{o}, err
	}
	items, _ := o.Object["items"].([]any)
	var out []*unstructured.Unstructured
	for i, item := range items {
		m, _ := item.(map[string]any)
		o := &unstructured.Unstructured{Object: m}
		if o.GetKind() == "" || o.GetAPIVersion() == "" {
			return nil, wrong(fmt.Sprintf("items[%d]", i), "has no apiVersion or kind")
		}
		out = append(out, o)
	}
	return out, nil
}

// decodeObject reads an object with its integers as integers.
func decodeObject(text []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	err := sigsjson.UnmarshalCaseSensitivePreserveInts(text, &o.Object)
	t, mistyped := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case mistyped:
		return nil, fmt.Errorf("want an object with apiVersion and kind, not %s", t.Value)
	case err != nil:
		return nil, err
	case o.GetAPIVersion() == "":
		return nil, wrong("apiVersion", "missing")
	case o.GetKind() == "":
		return nil, wrong("kind", "missing")
	}
	return o, nil
}

// into reads an object as a type, strictly: an unknown field is an error that names it.
func into(o *unstructured.Unstructured, out any) *problem {
	text, err := json.Marshal(o.Object)
	if err != nil {
		return wrong("", "%v", err)
	}
	unknown, err := sigsjson.UnmarshalStrict(text, out)
	t, mistyped := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case mistyped:
		return wrong(t.Field, "a %s is not a %s", t.Value, t.Type)
	case err != nil:
		return wrong("", "%v", err)
	case len(unknown) > 0:
		return wrong(fieldOf(unknown[0]), "%v", unknown[0])
	}
	return nil
}

// fieldOf finds the field in an error like: unknown field "spec.containers[0].imag".
func fieldOf(err error) string {
	if parts := strings.Split(err.Error(), `"`); len(parts) > 2 {
		return parts[1]
	}
	return ""
}

// reader completes objects as the API server and its admission plugins would, and makes the
// pods that controllers make.
type reader struct {
	ctx     context.Context // of the question
	replica *Replica
	// queues says that the caller may list queues.
	queues bool
	// namespace is for objects that name none, offline says that images are digests.
	namespace string
	offline   bool
	serial    int
	now       metav1.Time

	pods    []*v1.Pod
	refused []query.Refused
	assumed []string
	// bytes is how large the pods are, see maxBytes.
	bytes int
	// template says that the object that is read has a template of pods.
	template bool
	// halt is why no more is read.
	halt *problem
}

// name is an object in words.
func name(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// read takes all objects of a manifest: those that describe gangs go into the replica, pods
// into r.pods.
func (r *reader) read(objects []*unstructured.Unstructured) *problem {
	r.now = metav1.NewTime(r.replica.Now().Truncate(time.Second))
	for turn := range 2 { // referredTo first
		for _, o := range objects {
			if slices.Contains(referredTo, o.GetKind()) != (turn == 0) {
				continue
			}
			if r.readOne(o); r.halt != nil {
				return r.halt
			}
		}
	}
	return nil
}

// referredTo are kinds that objects of other kinds name.
var referredTo = []string{"PriorityClass", "Queue", "PodGroup", "PodGang", "Namespace"}

func (r *reader) readOne(o *unstructured.Unstructured) {
	if p := r.settleObject(o); p != nil {
		r.refuse(o, p)
		return
	}
	had := len(r.pods)
	r.template = false
	if p := r.expand(o); p != nil {
		r.pods = r.pods[:had] // an object has all of its pods, or none
		r.refuse(o, p)
	} else if r.template && len(r.pods) == had {
		r.assume("%s makes no pods: it asks for 0", name(o))
	}
}

func (r *reader) refuse(o *unstructured.Unstructured, p *problem) {
	r.refused = append(r.refused, query.Refused{Object: name(o), Field: p.field, Message: p.message})
}

func (r *reader) assume(format string, args ...any) {
	switch text := fmt.Sprintf(format, args...); {
	case len(r.assumed) > maxAssumed || slices.Contains(r.assumed, text):
	case len(r.assumed) == maxAssumed:
		r.assumed = append(r.assumed, "and more like these")
	default:
		r.assumed = append(r.assumed, text)
	}
}

// cluster are kinds without a namespace that a manifest may hold.
var cluster = []string{"Namespace", "PriorityClass", "Queue", "Node", "PersistentVolume", "ClusterRole", "ClusterRoleBinding", "StorageClass", "CustomResourceDefinition", "DeviceClass"}

// settleObject gives an object its namespace, name, UID and time.
func (r *reader) settleObject(o *unstructured.Unstructured) *problem {
	if _, ok := o.Object["metadata"].(map[string]any); !ok {
		return wrong("metadata", "missing")
	}
	if !slices.Contains(cluster, o.GetKind()) {
		if o.GetNamespace() == "" {
			o.SetNamespace(r.namespace)
		}
		if _, err := r.replica.factory.Core().V1().Namespaces().Lister().Get(o.GetNamespace()); err != nil {
			r.assume("namespace %s is not known; it was taken as one without quota", o.GetNamespace())
		}
	}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		r.serial++
		o.SetName(fmt.Sprintf("%swhatif%d", o.GetGenerateName(), r.serial))
	}
	given := o.Object["metadata"].(map[string]any)["name"]
	switch problems := validation.IsDNS1123Subdomain(o.GetName()); {
	case o.GetName() == "" && given != nil && given != "":
		return wrong("metadata.name", "%s is not a string: put it in quotes", clip(fmt.Sprint(given)))
	case o.GetName() == "":
		return wrong("metadata.name", "missing")
	case len(problems) > 0:
		return wrong("metadata.name", "%q: %s", clip(o.GetName()), problems[0])
	}
	o.SetUID(r.uid(o.GetKind()))
	o.SetCreationTimestamp(r.now)
	return nil
}

// uid is one that no object has.
func (r *reader) uid(kind string) types.UID {
	r.serial++
	return types.UID(fmt.Sprintf("whatif-%s-%d", strings.ToLower(kind), r.serial))
}

// stop says why no more pods are made: there are as many as may be, or the question was
// cancelled. Loops over what a manifest counts ask it, or add, each time.
func (r *reader) stop() *problem {
	switch {
	case r.halt != nil:
	case r.ctx.Err() != nil:
		r.halt = wrong("", "%v", r.ctx.Err())
	case len(r.pods) >= MaxPods:
		r.halt = wrong("", "the manifest makes more than %d pods", MaxPods)
	}
	return r.halt
}

// reserve accounts for n pods (enough has looked at n) of a template that lies at a field,
// before they are made. extra is what is added to each, in bytes.
func (r *reader) reserve(n int, t *v1.PodTemplateSpec, extra int, field string) *problem {
	r.template = true
	if n <= 0 {
		return nil
	}
	containers := 0
	for _, list := range []struct {
		field string
		n     int
	}{{"containers", len(t.Spec.Containers)}, {"initContainers", len(t.Spec.InitContainers)}, {"ephemeralContainers", len(t.Spec.EphemeralContainers)}} {
		if containers += list.n; list.n > maxContainers {
			return wrong(field+".spec."+list.field, "%d: a pod may have %d at most here", list.n, maxContainers)
		}
	}
	text, err := json.Marshal(t)
	if err != nil {
		return wrong(field, "%v", err)
	}
	one := max(len(text), leastContainer*containers) + extra
	if r.bytes+n*one > maxBytes {
		return wrong(field, "%s of %d bytes each: the pods of a manifest may have %d MiB in all", count(n, "pod"), one, maxBytes>>20)
	}
	r.bytes += n * one
	return nil
}

// add completes a pod and takes it. field is where its spec lies in its object.
func (r *reader) add(p *v1.Pod, field string) *problem {
	if problem := r.stop(); problem != nil {
		return problem
	}
	if p.UID == "" {
		p.UID = r.uid("pod")
	}
	p.CreationTimestamp = r.now
	p.Status = v1.PodStatus{Phase: v1.PodPending}
	if problem := r.complete(p, field); problem != nil {
		return problem
	}
	if r.offline {
		p = ReducePod(p)
	}
	r.pods = append(r.pods, p)
	return nil
}

// complete fills in what the API server would, and checks what it would refuse and
// scheduling depends on.
func (r *reader) complete(p *v1.Pod, field string) *problem {
	s := &p.Spec
	switch {
	case s.NodeName != "":
		return wrong(field+".nodeName", "the pod would be on node %q without being scheduled", s.NodeName)
	case len(s.Containers) == 0:
		return wrong(field+".containers", "none")
	case r.replica.Pod(p.Namespace, p.Name) != nil:
		return wrong("metadata.name", "pod %s/%s exists", p.Namespace, p.Name)
	}
	s.SchedulerName = cmp.Or(s.SchedulerName, v1.DefaultSchedulerName)
	if !r.replica.engine.Gate().Owns(s.SchedulerName) {
		return wrong(field+".schedulerName", "%q is not a scheduler name of Tangram's here: another scheduler would place the pod", s.SchedulerName)
	}
	if s.TerminationGracePeriodSeconds == nil {
		s.TerminationGracePeriodSeconds = new(int64(v1.DefaultTerminationGracePeriodSeconds))
	}
	for _, list := range []struct {
		field string
		of    []v1.Container
	}{{"containers", s.Containers}, {"initContainers", s.InitContainers}} {
		for i := range list.of {
			if problem := completeResources(&list.of[i].Resources, fmt.Sprintf("%s.%s[%d].resources", field, list.field, i)); problem != nil {
				return problem
			}
			if list.of[i].Name == "" {
				return wrong(fmt.Sprintf("%s.%s[%d].name", field, list.field, i), "missing")
			}
		}
	}
	tolerate(s)
	return r.prioritize(s, field)
}

// completeResources makes requests of limits.
func completeResources(r *v1.ResourceRequirements, field string) *problem {
	for name, q := range r.Limits {
		if q.Sign() < 0 {
			return wrong(fmt.Sprintf("%s.limits[%s]", field, name), "%s is negative", q.String())
		}
		if asked, ok := r.Requests[name]; ok && asked.Cmp(q) > 0 {
			return wrong(fmt.Sprintf("%s.requests[%s]", field, name), "%s is above the limit, %s", asked.String(), q.String())
		} else if !ok {
			if r.Requests == nil {
				r.Requests = v1.ResourceList{}
			}
			r.Requests[name] = q
		}
	}
	for name, q := range r.Requests {
		if q.Sign() < 0 {
			return wrong(fmt.Sprintf("%s.requests[%s]", field, name), "%s is negative", q.String())
		}
		if q.Value() == math.MaxInt64 {
			return wrong(fmt.Sprintf("%s.requests[%s]", field, name), "%s is too large", q.String())
		}
	}
	return nil
}

// tolerate adds the tolerations that admission gives every pod.
func tolerate(s *v1.PodSpec) {
	for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		has := slices.ContainsFunc(s.Tolerations, func(t v1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == v1.TaintEffectNoExecute || t.Effect == "")
		})
		if !has {
			s.Tolerations = append(s.Tolerations, v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))})
		}
	}
}

// prioritize gives a pod the priority of its class.
func (r *reader) prioritize(s *v1.PodSpec, field string) *problem {
	if !r.replica.Serves(dialect.Priorities) {
		return nil
	}
	classes := r.replica.engine.Objects()[dialect.Priorities]
	var class *unstructured.Unstructured
	if s.PriorityClassName != "" {
		if class = classes.Get(s.PriorityClassName); class == nil {
			return wrong(field+".priorityClassName", "no PriorityClass %q", s.PriorityClassName)
		}
	} else {
		for _, o := range classes.All() {
			if isDefault, _, _ := unstructured.NestedBool(o.Object, "globalDefault"); isDefault && (class == nil || priority(o) < priority(class)) {
				class = o
			}
		}
	}
	value := int32(0)
	if class != nil {
		s.PriorityClassName, value = class.GetName(), priority(class)
		if policy, ok, _ := unstructured.NestedString(class.Object, "preemptionPolicy"); ok && s.PreemptionPolicy == nil {
			s.PreemptionPolicy = new(v1.PreemptionPolicy(policy))
		}
	}
	if s.Priority != nil && *s.Priority != value {
		return wrong(field+".priority", "%d, but the pod's PriorityClass says %d", *s.Priority, value)
	}
	s.Priority = &value
	return nil
}

func priority(class *unstructured.Unstructured) int32 {
	value, _, _ := unstructured.NestedInt64(class.Object, "value")
	return int32(value)
}
