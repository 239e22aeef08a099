package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// want is one container of a test pod.
type want struct {
	name     string
	resource string
	count    int
	devices  []record.Device // of its record
	init     bool
	sidecar  bool
	limits   map[string]string
}

var serial int

// pod makes a pod of node n, bound one second after the one before.
func pod(name string, containers ...want) *v1.Pod {
	serial++
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-uid"), ResourceVersion: fmt.Sprint(serial),
		CreationTimestamp: metav1.NewTime(time.Unix(int64(serial), 0)), Annotations: map[string]string{}}, Spec: v1.PodSpec{NodeName: "n"}}
	r := record.Record{Node: "n"}
	for _, w := range containers {
		c := v1.Container{Name: w.name, Resources: v1.ResourceRequirements{Limits: v1.ResourceList{}}}
		if w.count > 0 {
			c.Resources.Limits[v1.ResourceName(w.resource)] = *resource.NewQuantity(int64(w.count), resource.DecimalSI)
		}
		for k, v := range w.limits {
			c.Resources.Limits[v1.ResourceName(k)] = resource.MustParse(v)
		}
		switch {
		case w.sidecar:
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		case w.init:
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		default:
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		if len(w.devices) > 0 {
			r.Containers = append(r.Containers, record.Container{Name: w.name, Resource: w.resource, Devices: w.devices})
		}
	}
	if len(r.Containers) > 0 {
		text, err := record.Encode(r)
		if err != nil {
			panic(err)
		}
		p.Annotations[names.AnnotationDevices] = text
	}
	return p
}

func gpuOf(index int) record.Device {
	d := testInventory().Devices[index]
	return record.Device{Index: d.Index, UUID: d.UUID}
}

func turnOf(index int) record.Device {
	d := gpuOf(index)
	d.Turn = true
	return d
}

// fakePods is a Source that the test fills.
type fakePods struct {
	mu   sync.Mutex
	pods []*v1.Pod
	sig  *signal
	// unread: they were not read yet.
	unread bool
}

func (f *fakePods) Synced() bool { return !f.unread }

func newFakePods(pods ...*v1.Pod) *fakePods { return &fakePods{pods: pods, sig: newSignal()} }

func (f *fakePods) set(p *v1.Pod) {
	f.mu.Lock()
	f.pods = append(slices.DeleteFunc(f.pods, func(q *v1.Pod) bool { return q.Name == p.Name }), p)
	f.mu.Unlock()
	f.sig.raise()
}

func (f *fakePods) remove(name string) {
	f.mu.Lock()
	f.pods = slices.DeleteFunc(f.pods, func(q *v1.Pod) bool { return q.Name == name })
	f.mu.Unlock()
	f.sig.raise()
}

func (f *fakePods) List() []*v1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.pods)
}

func (f *fakePods) Get(namespace, name string) *v1.Pod {
	for _, p := range f.List() {
		if p.Namespace == namespace && p.Name == name {
			return p
		}
	}
	return nil
}

func (f *fakePods) Changed() <-chan struct{} { return f.sig.wait() }

// fakeKubelet lists what the test says: pod, container, resource, IDs.
type fakeKubelet struct {
	mu   sync.Mutex
	held map[string]map[string]map[string][]string
	away bool
}

func (f *fakeKubelet) admit(pod string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held == nil {
		f.held = map[string]map[string]map[string][]string{}
	}
	f.held[pod] = map[string]map[string][]string{}
}

func (f *fakeKubelet) give(pod, container, resource string, ids ...string) {
	f.mu.Lock()
	have := f.held[pod] != nil
	f.mu.Unlock()
	if !have {
		f.admit(pod)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[pod][container] = map[string][]string{resource: slices.Sorted(slices.Values(ids))}
}

func (f *fakeKubelet) end(pod string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.held, pod)
}

func (f *fakeKubelet) List(context.Context) (Listing, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return nil, errors.New("kubelet is away")
	}
	out := Listing{}
	for name, containers := range f.held {
		l := Listed{Namespace: "ns", Name: name}
		for c, devices := range containers {
			l.Containers = append(l.Containers, ListedContainer{Name: c, Devices: devices})
		}
		out = append(out, l)
	}
	return out, nil
}

func newTestBook(k *fakeKubelet, p *fakePods, amounts bool) *Book {
	inv := testInventory()
	return NewBook(Options{Node: "n", Pods: p, Kubelet: k, Inventory: func() *device.Inventory { return inv },
		Patience: 20 * time.Millisecond, Amounts: func(string) bool { return amounts }})
}
