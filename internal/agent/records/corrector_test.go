package records

import (
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
)

// api is an API server for patches and reads of pods: it checks versions as a real one.
type api struct {
	mu      sync.Mutex
	pods    map[string]*v1.Pod
	version int
	away    bool
	patches int
}

func (a *api) podsOf() func(namespace string) PodWriter {
	c := a.client()
	return func(namespace string) PodWriter { return c.CoreV1().Pods(namespace) }
}

func (a *api) client() *fake.Clientset {
	c := fake.NewClientset()
	c.PrependReactor("*", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.away {
			return true, nil, errors.New("connection refused")
		}
		get, _ := action.(interface{ GetName() string })
		p := a.pods[get.GetName()]
		kind := schema.GroupResource{Resource: "pods"}
		if p == nil {
			return true, nil, apierrors.NewNotFound(kind, get.GetName())
		}
		patch, ok := action.(ktesting.PatchAction)
		if !ok {
			return true, p.DeepCopy(), nil
		}
		a.patches++
		var body struct {
			Metadata struct {
				UID             types.UID
				ResourceVersion string
				Annotations     map[string]*string
			}
		}
		if err := json.Unmarshal(patch.GetPatch(), &body); err != nil {
			return true, nil, err
		}
		if body.Metadata.UID != p.UID || body.Metadata.ResourceVersion != p.ResourceVersion {
			return true, nil, apierrors.NewConflict(kind, p.Name, errors.New("changed"))
		}
		p = p.DeepCopy()
		for k, v := range body.Metadata.Annotations {
			delete(p.Annotations, k)
			if v != nil {
				p.Annotations[k] = *v
			}
		}
		p.ResourceVersion = a.next()
		a.pods[p.Name] = p
		return true, p.DeepCopy(), nil
	})
	return c
}

// next is a version that is younger than all others.
func (a *api) next() string {
	a.version++
	return strconv.Itoa(1e6 + a.version)
}

func (a *api) get(name string) *v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods[name]
}

func TestCorrector(t *testing.T) {
	k := &fakeKubelet{}
	p := pod("p", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}})
	source := newFakePods(p)
	server := &api{pods: map[string]*v1.Pod{"p": p}}
	var corrected, problems int
	c := NewCorrector(CorrectorOptions{Book: newTestBook(k, source, false), Pods: server.podsOf(),
		Corrected: func(Correction) { corrected++ }, Problem: func(Problem) { problems++ }})
	round := func(want int) {
		t.Helper()
		if n, err := c.Round(t.Context()); n != want || err != nil {
			t.Errorf("%d written, %v; want %d", n, err, want)
		}
	}
	k.admit("p")
	round(0)
	k.give("p", "c", gpu, "GPU-b")
	round(1)
	if x := devicesOf(t, server.get("p"), "c"); x != "GPU-b" {
		t.Errorf("%s", x)
	}
	// The informer has not heard of it yet: not written again.
	round(0)
	// Kubelet wrote the status meanwhile: the version is another, the record is not.
	status := server.get("p").DeepCopy()
	status.ResourceVersion = server.next()
	server.pods["p"] = status
	k.give("p", "c", gpu, "GPU-c")
	round(1)
	// The record was changed by another writer: it is looked at again first.
	other := server.get("p").DeepCopy()
	other.ResourceVersion = server.next()
	other.Annotations[names.AnnotationDevices] = p.Annotations[names.AnnotationDevices]
	server.pods["p"] = other
	k.give("p", "c", gpu, "GPU-d")
	if n, err := c.Round(t.Context()); n != 0 || err == nil {
		t.Errorf("overwrote a record it had not seen: %d, %v", n, err)
	}
	source.set(other)
	round(1)
	// What cannot be is told once.
	k.give("p", "c", gpu, "GPU-gone")
	round(0)
	round(0)
	if problems != 1 || corrected != 3 {
		t.Errorf("%d problems told, %d corrections", problems, corrected)
	}
	// A pod of the same name is another pod.
	k.give("p", "c", gpu, "GPU-a")
	again := server.get("p").DeepCopy()
	again.UID, again.ResourceVersion = "other-uid", server.next()
	server.pods["p"] = again
	before := server.get("p").Annotations[names.AnnotationDevices]
	round(1)
	if server.get("p").Annotations[names.AnnotationDevices] != before {
		t.Error("a record was written to another pod")
	}
}

// TestCatchUp: the API server is away; all is written when it is back.
func TestCatchUp(t *testing.T) {
	k := &fakeKubelet{}
	a := pod("a", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}})
	b := pod("b", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(1)}})
	k.give("a", "c", gpu, "GPU-b")
	k.give("b", "c", gpu, "GPU-a")
	server := &api{pods: map[string]*v1.Pod{"a": a, "b": b}, away: true}
	failed, corrected := make(chan error, 100), make(chan Correction, 100)
	c := NewCorrector(CorrectorOptions{Book: newTestBook(k, newFakePods(a, b), false), Pods: server.podsOf(), Every: 50 * time.Millisecond, Soon: time.Millisecond,
		Failed: func(err error) { failed <- err }, Corrected: func(x Correction) { corrected <- x }})
	go c.Run(t.Context())
	<-failed
	<-failed
	server.mu.Lock()
	server.away = false
	server.mu.Unlock()
	for range 3 { // one makes room
		<-corrected
	}
	if x, y := devicesOf(t, server.get("a"), "c"), devicesOf(t, server.get("b"), "c"); x != "GPU-b" || y != "GPU-a" {
		t.Errorf("a %s, b %s", x, y)
	}
	// Kubelet away, too.
	k.mu.Lock()
	k.away = true
	k.mu.Unlock()
	c.Look()
	<-failed
}
