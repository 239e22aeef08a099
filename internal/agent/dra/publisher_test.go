package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tangram-dev/tangram/core/health"
)

// server is an API server that keeps slices, and counts writes.
type server struct {
	mu      sync.Mutex
	version int
	slices  map[string]*resourceapi.ResourceSlice
	events  []watch.Event
	changed chan struct{}
	writes  int
	refuse  error
	// drops: the server does not know taints.
	drops bool
}

func newServer() *server {
	return &server{slices: map[string]*resourceapi.ResourceSlice{}, changed: make(chan struct{})}
}

// IsWatchListSemanticsUnSupported makes the reflector list.
func (s *server) IsWatchListSemanticsUnSupported() bool { return true }

var kind = resourceapi.Resource("resourceslices")

// happen needs the lock.
func (s *server) happen(t watch.EventType, slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	s.version++
	slice = slice.DeepCopy()
	slice.ResourceVersion = strconv.Itoa(s.version)
	for i := range slice.Spec.Devices {
		if s.drops {
			slice.Spec.Devices[i].Taints = nil
		}
	}
	if t == watch.Deleted {
		delete(s.slices, slice.Name)
	} else {
		s.slices[slice.Name] = slice
	}
	s.events = append(s.events, watch.Event{Type: t, Object: slice})
	close(s.changed)
	s.changed = make(chan struct{})
	return slice.DeepCopy()
}

func (s *server) List(context.Context, metav1.ListOptions) (*resourceapi.ResourceSliceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &resourceapi.ResourceSliceList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
	for _, x := range s.slices {
		out.Items = append(out.Items, *x.DeepCopy())
	}
	return out, nil
}

func (s *server) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	from, err := strconv.Atoi(o.ResourceVersion)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{make(chan watch.Event), cancel}
	go func() {
		for {
			s.mu.Lock()
			var next []watch.Event
			for _, e := range s.events {
				if v, _ := strconv.Atoi(e.Object.(*resourceapi.ResourceSlice).ResourceVersion); v > from {
					from = v
					next = append(next, e)
				}
			}
			changed := s.changed
			s.mu.Unlock()
			for _, e := range next {
				select {
				case w.events <- watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()}:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}()
	return w, nil
}

// watcher is one watch of a server.
type watcher struct {
	events chan watch.Event
	cancel context.CancelFunc
}

func (w *watcher) Stop()                          { w.cancel() }
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

func (s *server) write(t watch.EventType, slice *resourceapi.ResourceSlice) (*resourceapi.ResourceSlice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	old := s.slices[slice.Name]
	switch {
	case s.refuse != nil:
		return nil, s.refuse
	case t == watch.Added && old != nil:
		return nil, apierrors.NewAlreadyExists(kind, slice.Name)
	case t != watch.Added && old == nil:
		return nil, apierrors.NewNotFound(kind, slice.Name)
	case t == watch.Modified && old.ResourceVersion != slice.ResourceVersion:
		return nil, apierrors.NewConflict(kind, slice.Name, errors.New("changed"))
	}
	return s.happen(t, slice), nil
}

func (s *server) Create(_ context.Context, x *resourceapi.ResourceSlice) (*resourceapi.ResourceSlice, error) {
	return s.write(watch.Added, x)
}

func (s *server) Update(_ context.Context, x *resourceapi.ResourceSlice) (*resourceapi.ResourceSlice, error) {
	return s.write(watch.Modified, x)
}

func (s *server) Delete(_ context.Context, name string) error {
	_, err := s.write(watch.Deleted, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return err
}

// wipe deletes all slices, as kubelet does when it starts.
func (s *server) wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.slices {
		s.happen(watch.Deleted, x)
	}
}

// lacks says what the pool lacks to be complete with a number of slices; empty for nothing.
func (s *server) lacks(count int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var generations []int64
	for _, x := range s.slices {
		if x.Spec.Pool.ResourceSliceCount != int64(len(s.slices)) || x.Spec.Pool.Name != "n" || *x.Spec.NodeName != "n" || x.Spec.Driver != Driver || len(x.OwnerReferences) != 1 || x.OwnerReferences[0].UID != "u" {
			return fmt.Sprintf("%s: %+v", x.Name, x)
		}
		generations = append(generations, x.Spec.Pool.Generation)
	}
	if len(generations) != count || count > 0 && slices.Max(generations) != slices.Min(generations) {
		return fmt.Sprintf("generations %v", generations)
	}
	return ""
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

func eventually(t *testing.T, what string, lacks func() string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		missing := lacks()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s", what, missing)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// start publishes to a server until the test ends.
func start(t *testing.T, s *server) *Publisher {
	t.Helper()
	o := NewObserved(s, "n")
	p := NewPublisher(PublisherOptions{Node: "n", Observed: o, UID: func(context.Context) (string, error) { return "u", nil }})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { o.Run(ctx) })
	running.Go(func() { p.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return p
}

func TestPublisher(t *testing.T) {
	s := newServer()
	p := start(t, s)
	state := State{Inventory: inventory(8, 4), Cuts: Cuts{OnDemand: true}, Health: well}
	const all = 1 + 1 + 4 // counters, GPUs that are not cut, four that are
	p.Set(state.Slices())
	eventually(t, "published", func() string { return s.lacks(all) })
	if n := s.count(); n != all {
		t.Errorf("%d writes for %d slices", n, all)
	}

	// The same again costs nothing; one sick card one write, and one more when it is well.
	p.Set(state.Slices())
	sick := state
	sick.Health = func(id string) (health.Status, bool) {
		return health.Status{State: health.Failed, Since: time.Unix(1, 0)}, strings.HasPrefix(id, "GPU-2")
	}
	tainted := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := 0
		for _, x := range s.slices {
			for _, d := range x.Spec.Devices {
				n += len(d.Taints)
			}
		}
		return n
	}
	p.Set(sick.Slices())
	eventually(t, "tainted", func() string {
		if n := tainted(); n != 26 {
			return fmt.Sprint(n)
		}
		return s.lacks(all)
	})
	p.Set(state.Slices())
	eventually(t, "well again", func() string {
		if n := tainted(); n != 0 {
			return fmt.Sprint(n)
		}
		return s.lacks(all)
	})
	if n := s.count(); n != all+2 {
		t.Errorf("%d writes", n)
	}

	// Kubelet starts, and deletes all.
	s.wipe()
	eventually(t, "published again", func() string { return s.lacks(all) })

	// A card is taken out, another can no longer be cut.
	smaller := state
	smaller.Inventory = inventory(7, 3)
	p.Set(smaller.Slices())
	eventually(t, "smaller", func() string { return s.lacks(all - 1) })

	// The API server is away for a while.
	s.mu.Lock()
	s.refuse = errors.New("away")
	before := s.writes
	s.mu.Unlock()
	p.Set(state.Slices())
	eventually(t, "tried", func() string {
		if s.count() < before+2 {
			return "not yet"
		}
		return ""
	})
	s.mu.Lock()
	s.refuse = nil
	s.mu.Unlock()
	eventually(t, "caught up", func() string { return s.lacks(all) })
}

// A server that drops fields is not written to for ever.
func TestServerDropsFields(t *testing.T) {
	s := newServer()
	s.drops = true
	p := NewPublisher(PublisherOptions{Node: "n", Observed: NewObserved(s, "n"), UID: func(context.Context) (string, error) { return "u", nil }})
	p.Set(State{Inventory: inventory(2, 0), Health: func(string) (health.Status, bool) { return health.Status{State: health.Suspect}, true }}.Slices())
	for range 3 {
		if err := p.sync(t.Context()); err != nil || s.count() != 1 {
			t.Errorf("%d writes, %v", s.count(), err)
		}
	}
}

// A slice that another writer changed is put right.
func TestWrittenOver(t *testing.T) {
	s := newServer()
	p := start(t, s)
	p.Set(State{Inventory: inventory(2, 0), Health: well}.Slices())
	eventually(t, "published", func() string { return s.lacks(1) })
	s.mu.Lock()
	for _, x := range s.slices {
		x = x.DeepCopy()
		x.Spec.Devices = nil
		s.happen(watch.Modified, x)
	}
	s.mu.Unlock()
	eventually(t, "put right", func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, x := range s.slices {
			if len(x.Spec.Devices) != 2 {
				return "no devices"
			}
		}
		return ""
	})
}
