package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// server is an API server with some Nodes and GPUNodes. It checks versions, counts
// generations, keeps subresources apart and knows which manager set a label, as the real one does.
type server struct {
	t       *testing.T
	mu      sync.Mutex
	nodes   map[string]*v1.Node
	objects map[string]map[string]any
	version int
	// down answers everything with an error. prunes are keys that it does not store.
	down   bool
	prunes []string
	// writes are the calls that changed something, by kind; calls all of them.
	writes map[string]int
	calls  int
}

func newServer(t *testing.T, nodes ...string) *server {
	s := &server{t: t, nodes: map[string]*v1.Node{}, objects: map[string]map[string]any{}, writes: map[string]int{}}
	for _, name := range nodes {
		s.addNode(name)
	}
	return s
}

func (s *server) addNode(name string) {
	s.version++
	s.nodes[name] = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprint("uid-", s.version)), Labels: map[string]string{}}}
}

func (s *server) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// count is how many writes of a kind there were.
func (s *server) count(kind string) (n int) {
	s.do(func() { n = s.writes[kind] })
	return n
}

func (s *server) called(err *error) func() {
	s.mu.Lock()
	if s.calls++; s.down {
		*err = errors.New("connection refused")
	}
	return s.mu.Unlock
}

func (s *server) GetNode(_ context.Context, name string) (out *v1.Node, err error) {
	defer s.called(&err)()
	if err != nil {
		return nil, err
	}
	if n := s.nodes[name]; n != nil {
		return n.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
}

func (s *server) PatchNode(_ context.Context, name string, patch []byte) (out *v1.Node, err error) {
	defer s.called(&err)()
	if err != nil {
		return nil, err
	}
	n := s.nodes[name]
	if n == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
	}
	var body struct {
		Metadata struct {
			UID    types.UID
			Labels map[string]*string
		}
	}
	if err := json.Unmarshal(patch, &body); err != nil {
		s.t.Errorf("patch of the node: %v", err)
	}
	if body.Metadata.UID != n.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, name, errors.New("another UID"))
	}
	for key, value := range body.Metadata.Labels {
		if value == nil {
			s.label(n, key, "", "")
		} else {
			s.label(n, key, *value, Manager)
		}
	}
	s.writes["labels"]++
	return n.DeepCopy(), nil
}

// label sets a label for a manager, or removes it.
func (s *server) label(n *v1.Node, key, value, manager string) {
	for i := range n.ManagedFields {
		e := &n.ManagedFields[i]
		fields := map[string]any{}
		_ = json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields)
		delete(fields["f:metadata"].(map[string]any)["f:labels"].(map[string]any), "f:"+key)
		raw, _ := json.Marshal(fields)
		e.FieldsV1 = metav1.NewFieldsV1(string(raw))
	}
	if manager == "" {
		delete(n.Labels, key)
		return
	}
	n.Labels[key] = value
	raw, _ := json.Marshal(map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:" + key: map[string]any{}}}})
	n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(string(raw))})
}

var resource = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "gpunodes"}

func (s *server) Get(_ context.Context, name string) (out *unstructured.Unstructured, err error) {
	defer s.called(&err)()
	if err != nil {
		return nil, err
	}
	return s.read(name)
}

func (s *server) read(name string) (*unstructured.Unstructured, error) {
	o := s.objects[name]
	if o == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return (&unstructured.Unstructured{Object: o}).DeepCopy(), nil
}

func (s *server) Create(_ context.Context, o *unstructured.Unstructured) (out *unstructured.Unstructured, err error) {
	defer s.called(&err)()
	if err != nil {
		return nil, err
	}
	if s.objects[o.GetName()] != nil {
		return nil, apierrors.NewAlreadyExists(resource, o.GetName())
	}
	o = o.DeepCopy()
	delete(o.Object, "status")
	s.store(o.GetName(), o.Object, 1)
	s.writes["spec"]++
	return s.read(o.GetName())
}

func (s *server) Patch(_ context.Context, name string, patch []byte, status bool) (out *unstructured.Unstructured, err error) {
	defer s.called(&err)()
	if err != nil {
		return nil, err
	}
	o := s.objects[name]
	if o == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	body := &unstructured.Unstructured{}
	if err := json.Unmarshal(patch, &body.Object); err != nil {
		s.t.Errorf("patch: %v", err)
	}
	was := &unstructured.Unstructured{Object: o}
	if body.GetResourceVersion() != was.GetResourceVersion() {
		return nil, apierrors.NewConflict(resource, name, errors.New("another version"))
	}
	kind, other := "spec", "status"
	if status {
		kind, other = other, kind
	}
	s.writes[kind]++
	if body.Object[other] != nil {
		s.t.Errorf("a write of %s with %s", kind, other)
	}
	next := apply(was.DeepCopy().Object, body.Object)
	generation := was.GetGeneration()
	s.prune(next)
	if !equal(next["spec"], o["spec"]) {
		generation++
	}
	s.store(name, next, generation)
	return s.read(name)
}

func (s *server) store(name string, o map[string]any, generation int64) {
	s.version++
	u := &unstructured.Unstructured{Object: o}
	u.SetResourceVersion(strconv.Itoa(s.version))
	u.SetGeneration(generation)
	s.prune(o)
	s.objects[name] = u.DeepCopy().Object
}

// prune removes keys that the CRD does not have.
func (s *server) prune(value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range s.prunes {
			delete(v, key)
		}
		for _, inner := range v {
			s.prune(inner)
		}
	case []any:
		for _, inner := range v {
			s.prune(inner)
		}
	}
}

// edit changes an object as another writer.
func (s *server) edit(name string, change func(spec, status map[string]any)) {
	s.do(func() {
		o := (&unstructured.Unstructured{Object: s.objects[name]}).DeepCopy().Object
		if o["status"] == nil {
			o["status"] = map[string]any{}
		}
		change(o["spec"].(map[string]any), o["status"].(map[string]any))
		s.store(name, o, (&unstructured.Unstructured{Object: o}).GetGeneration()+1)
	})
}

// apply is a JSON merge patch.
func apply(to, patch map[string]any) map[string]any {
	to = maps.Clone(to)
	for key, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(to, key)
		case map[string]any:
			was, _ := to[key].(map[string]any)
			if was == nil {
				was = map[string]any{}
			}
			to[key] = apply(was, v)
		default:
			to[key] = value
		}
	}
	return to
}
