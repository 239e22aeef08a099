package cluster

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// Kinds that several packages of tests use.
var (
	Nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	Pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	ConfigMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	Jobs       = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	Queues     = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues"}
	PodGroups  = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}
	GPUNodes   = v1alpha1.GPUNodes
)

// clusterScoped are the resources that have no namespace.
var clusterScoped = map[string]bool{
	"nodes": true, "queues": true, "gpunodes": true, "namespaces": true, "persistentvolumes": true,
	"priorityclasses": true, "deviceclasses": true, "resourceslices": true, "multikueueclusters": true, "nodeclaims": true, "customresourcedefinitions": true,
}

// Objects is the client for objects of a kind: those of the world's namespace, for kinds that
// have one.
func (w *World) Objects(kind schema.GroupVersionResource) dynamic.ResourceInterface {
	if clusterScoped[kind.Resource] {
		return w.Dynamic.Resource(kind)
	}
	return w.Dynamic.Resource(kind).Namespace(w.Namespace)
}

// Object is an object as it is now; nil when there is none.
func (w *World) Object(kind schema.GroupVersionResource, name string) *unstructured.Unstructured {
	w.T.Helper()
	o, err := w.Objects(kind).Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.Must(err)
	return o
}

// Read is an object as a Go type.
func Read[T any](w *World, kind schema.GroupVersionResource, name string) *T {
	w.T.Helper()
	out := ReadIf[T](w, kind, name)
	if out == nil {
		w.T.Fatalf("no %s %s", kind.Resource, name)
	}
	return out
}

// ReadIf is Read for an object that may not be there: nil then.
func ReadIf[T any](w *World, kind schema.GroupVersionResource, name string) *T {
	w.T.Helper()
	o := w.Object(kind, name)
	if o == nil {
		return nil
	}
	out := new(T)
	w.Must(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out))
	return out
}

// List are the objects of a kind with some labels, as selectors; all without one.
func (w *World) List(kind schema.GroupVersionResource, selectors ...string) []unstructured.Unstructured {
	w.T.Helper()
	list, err := w.Objects(kind).List(context.Background(), metav1.ListOptions{LabelSelector: strings.Join(selectors, ",")})
	w.Must(err)
	return list.Items
}

// ReadAll is List as a Go type.
func ReadAll[T any](w *World, kind schema.GroupVersionResource, selectors ...string) []T {
	w.T.Helper()
	list := w.List(kind, selectors...)
	out := make([]T, len(list))
	for i, o := range list {
		w.Must(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &out[i]))
	}
	return out
}

// Patch merges a patch into an object, or into a subresource of it.
func (w *World) Patch(kind schema.GroupVersionResource, name, patch string, subresource ...string) {
	w.T.Helper()
	_, err := w.Objects(kind).Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
	w.Must(err)
}

// Remove deletes an object, and with it what it owns.
func (w *World) Remove(kind schema.GroupVersionResource, name string) {
	w.T.Helper()
	w.Must(w.Objects(kind).Delete(context.Background(), name, atOnce()))
}

// Condition is a condition of an object, as "Status Reason: Message"; "" without one.
func Condition(o *unstructured.Unstructured, kind string) string {
	if o == nil {
		return ""
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		if m, ok := c.(map[string]any); ok && m["type"] == kind {
			return fmt.Sprintf("%v %v: %v", m["status"], m["reason"], m["message"])
		}
	}
	return ""
}

// Set sets a field of an object to a value in YAML.
func (w *World) Set(o *unstructured.Unstructured, text string, path ...string) {
	w.T.Helper()
	var value any
	w.Must(yaml.Unmarshal([]byte(text), &value))
	w.Must(unstructured.SetNestedField(o.Object, value, path...))
}

// AddNamespace creates a namespace with labels in YAML and returns the world in it, once it
// takes pods.
func (w *World) AddNamespace(name string, labels ...string) *World {
	w.T.Helper()
	w.Apply(fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {%s}}}", name, strings.Join(labels, ", ")))
	out := w.Within(name)
	w.Eventually("namespace "+name+" has a service account", func() (bool, string) {
		return !w.accounts || out.Object(serviceAccounts, "default") != nil, ""
	})
	return out
}

var serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}

// AddPriorityClass creates a PriorityClass; more are further fields in YAML.
func (w *World) AddPriorityClass(name string, value int, more ...string) {
	w.T.Helper()
	w.Apply(fmt.Sprintf("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: %s}, %s}", name, strings.Join(append(more, fmt.Sprint("value: ", value)), ", ")))
}

// AddQueue creates or changes a Queue; spec is a YAML flow mapping.
func (w *World) AddQueue(name, spec string) {
	w.T.Helper()
	w.Apply(fmt.Sprintf("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: %s}, spec: %s}", name, spec))
}

// Event waits for an event about an object that has these words in "Type Reason: Note", and
// returns its note.
func (w *World) Event(kind, name string, words ...string) (note string) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("event about %s %s with %q", kind, name, words), func() (bool, string) {
		var seen []string
		for _, e := range w.Events(kind, name) {
			if missing(e, words) == "" {
				_, note, _ = strings.Cut(e, ": ")
				return true, ""
			}
			seen = append(seen, e)
		}
		return false, strings.Join(seen, "; ")
	})
	return note
}

// Events are all events about an object, of any namespace, as "Type Reason: Note".
func (w *World) Events(kind, name string) (out []string) {
	w.T.Helper()
	list, err := w.Client.EventsV1().Events("").List(context.Background(), metav1.ListOptions{})
	w.Must(err)
	for _, e := range list.Items {
		if e.Regarding.Kind == kind && e.Regarding.Name == name {
			out = append(out, e.Type+" "+e.Reason+": "+e.Note)
		}
	}
	return out
}
