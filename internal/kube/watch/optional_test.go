package watch

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// refusing is an API server that answers with an error while it has one.
type refusing struct {
	*cachetesting.FakeControllerSource
	mu  sync.Mutex
	err error
	// refused is how often it was asked while it had an error.
	refused int
}

func (r *refusing) answer(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *refusing) now() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		r.refused++
	}
	return r.err
}

func (r *refusing) times() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

func (r *refusing) List(o metav1.ListOptions) (runtime.Object, error) {
	if err := r.now(); err != nil {
		return nil, err
	}
	return r.FakeControllerSource.List(o)
}

func (r *refusing) Watch(o metav1.ListOptions) (apiwatch.Interface, error) {
	if err := r.now(); err != nil {
		return nil, err
	}
	return r.FakeControllerSource.Watch(o)
}

// heard is what an Optional told.
type heard struct {
	mu   sync.Mutex
	keys []string
	all  int
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprint(h.keys, h.all)
}

func follow(t *testing.T, err error) (*Optional[*v1alpha1.GPUNode], *refusing, *heard) {
	t.Helper()
	source, h := &refusing{FakeControllerSource: cachetesting.NewFakeControllerSource(), err: err}, &heard{}
	w, problem := New[*v1alpha1.GPUNode](source, &v1alpha1.GPUNode{}, "none here",
		func(key string) { h.mu.Lock(); defer h.mu.Unlock(); h.keys = append(h.keys, key) },
		func() { h.mu.Lock(); defer h.mu.Unlock(); h.all++ })
	if problem != nil {
		t.Fatal(problem)
	}
	go w.Run(t.Context())
	t.Cleanup(source.Shutdown)
	return w, source, h
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func named(name string) *v1alpha1.GPUNode {
	return &v1alpha1.GPUNode{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// TestFollows: objects are told by key as they come, change and go.
func TestFollows(t *testing.T) {
	w, source, h := follow(t, nil)
	eventually(t, "listed", w.Listed)
	if !w.Synced() || w.Absent() || w.Get("a") != nil {
		t.Errorf("synced %v, absent %v", w.Synced(), w.Absent())
	}
	source.Add(named("a"))
	eventually(t, "come", func() bool { return h.String() == "[a] 0" && w.Get("a") != nil })
	source.Modify(named("a"))
	eventually(t, "changed", func() bool { return h.String() == "[a a] 0" })
	source.Delete(named("a"))
	eventually(t, "gone", func() bool { return h.String() == "[a a a] 0" && w.Get("a") == nil })
}

// TestComesLater: a kind that is not served, or not to us, is absent and not waited for;
// it is taken up when it is served.
func TestComesLater(t *testing.T) {
	gpuNodes := v1alpha1.GPUNodes.GroupResource()
	for name, err := range map[string]error{
		"no CRD":    apierrors.NewNotFound(gpuNodes, ""),
		"forbidden": apierrors.NewForbidden(gpuNodes, "", errors.New("no right")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, source, h := follow(t, err)
			eventually(t, "absent", func() bool { return w.Absent() && w.Synced() && !w.Listed() && h.String() == "[] 1" })
			source.Add(named("a"))
			source.answer(nil)
			eventually(t, "served", func() bool { return !w.Absent() && w.Get("a") != nil && h.String() == "[a] 2" })
		})
	}
}

// TestLookAgain: a sign that objects exist is followed at once, whatever the pause has grown
// to.
func TestLookAgain(t *testing.T) {
	t.Parallel()
	w, source, _ := follow(t, apierrors.NewNotFound(v1alpha1.GPUNodes.GroupResource(), ""))
	eventually(t, "absent", w.Absent)
	eventually(t, "the pause is at its longest", func() bool { // asked again soon, but not at once
		w.LookAgain()
		return source.times() > 5
	})
	source.Add(named("a"))
	source.answer(nil)
	begin := time.Now()
	w.LookAgain()
	eventually(t, "served", func() bool { return w.Get("a") != nil })
	if took := time.Since(begin); took > lastPause/2 {
		t.Errorf("it took %s", took)
	}
	(*Optional[*v1alpha1.GPUNode])(nil).LookAgain()
}

// TestFaultIsNotAbsence: an API server that fails is waited for.
func TestFaultIsNotAbsence(t *testing.T) {
	w, source, _ := follow(t, apierrors.NewServiceUnavailable("starting"))
	eventually(t, "asked", func() bool { return source.times() > 0 })
	if w.Absent() || w.Synced() {
		t.Errorf("absent %v, synced %v", w.Absent(), w.Synced())
	}
	source.answer(nil)
	eventually(t, "synced", w.Synced)
}

// TestNil: an Optional that is not there watches nothing and is not waited for.
func TestNil(t *testing.T) {
	var w *Optional[*v1alpha1.GPUNode]
	if w.Get("a") != nil || !w.Absent() || w.Listed() || !w.Synced() {
		t.Error("nil is not absent")
	}
}

// TestHandler: an object whose deletion was missed is unwrapped.
func TestHandler(t *testing.T) {
	a, seen := named("a"), 0
	h := Handler(func(o *v1alpha1.GPUNode) {
		if seen++; o != a {
			t.Errorf("got %v", o)
		}
	}, nil)
	h.OnAdd(a, false)
	h.OnUpdate(named("b"), a)
	h.OnDelete(cache.DeletedFinalStateUnknown{Obj: a})
	h.OnDelete("x") // no GPUNode
	if seen != 3 {
		t.Errorf("%d events are handled, want 3", seen)
	}
	if servesNone(errors.New("x")) || !servesNone(apierrors.NewNotFound(schema.GroupResource{}, "")) {
		t.Error("absence is not told from a fault")
	}
}
