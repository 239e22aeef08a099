package grant

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/records"
)

const gpu = "nvidia.com/gpu"

func inventory() *device.Inventory {
	return &device.Inventory{Devices: []device.Device{
		{Index: 0, UUID: "GPU-a", MemoryMiB: 1000, NUMA: 0},
		{Index: 1, UUID: "GPU-b", MemoryMiB: 1000, NUMA: 1},
		{Index: 2, UUID: "GPU-m", NUMA: 1, MIG: &device.MIG{Enabled: true,
			Profiles:  []device.Profile{{ID: 19, Name: "1g.18gb+me", Starts: []int{0, 1}, Size: 1}},
			Instances: []device.Instance{{UUID: "MIG-i", Profile: "3g.71gb", Start: 4, Size: 4}}}},
	}}
}

// node is the pods and what kubelet gave them, as the test says.
type node struct {
	pods    []*v1.Pod
	list    records.Listing
	away    atomic.Bool   // kubelet does not answer
	changed chan struct{} // nil for pods that never change
}

func (n *node) List() []*v1.Pod { return slices.Clone(n.pods) }
func (n *node) Get(namespace, name string) *v1.Pod {
	for _, p := range n.pods {
		if p.Name == name && p.Namespace == namespace {
			return p
		}
	}
	return nil
}
func (n *node) Synced() bool             { return true }
func (n *node) Changed() <-chan struct{} { return n.changed }

type lister struct{ n *node }

func (l lister) List(context.Context) (records.Listing, error) {
	if l.n.away.Load() {
		return nil, errors.New("kubelet is away")
	}
	return slices.Clone(l.n.list), nil
}

// add makes a pod that kubelet has given devices.
func (n *node) add(name, devices string, limits map[string]string, ids ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Annotations: map[string]string{}},
		Spec: v1.PodSpec{NodeName: "n", Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{}}}}}}
	p.CreationTimestamp.Time = p.CreationTimestamp.Time.AddDate(0, 0, len(n.pods))
	for k, v := range limits {
		p.Spec.Containers[0].Resources.Limits[v1.ResourceName(k)] = resource.MustParse(v)
	}
	if devices != "" {
		p.Annotations[names.AnnotationDevices] = `{"version":1,"node":"n","containers":[{"name":"c","resource":"nvidia.com/gpu","devices":[` + devices + `]}]}`
	}
	n.pods = append(n.pods, p)
	n.list = append(n.list, records.Listed{Namespace: "ns", Name: name, Containers: []records.ListedContainer{{Name: "c", Devices: map[string][]string{gpu: ids}}}})
	return p
}

func newGranter(t *testing.T, n *node, change func(*Options)) *Granter {
	t.Helper()
	o := Options{Inventory: inventory, CDI: func(id string) string { return "k=" + id }, Spec: func(context.Context, device.Allocation) error { return nil },
		Edits: func(_ context.Context, uuids []string) (device.Edits, error) {
			return device.Edits{Nodes: []device.Node{{Path: "/dev/" + uuids[0]}}}, nil
		}}
	if change != nil {
		change(&o)
	}
	o.Book = records.NewBook(records.Options{Node: "n", Pods: n, Kubelet: lister{n}, Inventory: inventory, Amounts: o.Amounts})
	return New(o)
}

func TestStrategies(t *testing.T) {
	byEnv := func(o *Options) { o.CDI = nil }
	cases := []struct {
		name   string
		change func(*Options)
		ids    []string
		env    string
		mounts string
		nodes  int
		cdi    int
		wrong  string
	}{
		{name: "default", ids: []string{"GPU-b", "GPU-a"}, cdi: 1},
		{name: "envvar", change: byEnv, ids: []string{"GPU-b", "GPU-a"}, env: "NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b"},
		{name: "index", change: func(o *Options) { o.CDI, o.ByIndex = nil, true }, ids: []string{"GPU-b", "MIG-i"}, env: "NVIDIA_VISIBLE_DEVICES=1,MIG-i"},
		{name: "turns", change: byEnv, ids: []string{"GPU-b::0", "GPU-b::1"}, env: "NVIDIA_VISIBLE_DEVICES=GPU-b"},
		{name: "volume-mounts", change: func(o *Options) { o.CDI, o.Mounts, o.PassDeviceSpecs = nil, true, true }, ids: []string{"GPU-b"},
			env: "NVIDIA_VISIBLE_DEVICES=/var/run/nvidia-container-devices", mounts: "/var/run/nvidia-container-devices/GPU-b", nodes: 1},
		{name: "a slice to be made", change: byEnv, ids: []string{"GPU-m::mig-1g.18gb+me@0"}, wrong: "needs deviceListStrategy cdi-cri"},
		{name: "one only", change: func(o *Options) { o.OneOnly = func(string) bool { return true } }, ids: []string{"GPU-a::0", "GPU-b::0"}, wrong: "failRequestsGreaterThanOne"},
		{name: "none", ids: nil, wrong: "no devices"},
		{name: "nonsense", ids: []string{"GPU-a::x"}, wrong: "device ID"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a, err := newGranter(t, &node{}, c.change).Allocate(t.Context(), gpu, c.ids)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), gpu) {
					t.Errorf("%v", err)
				}
				return
			}
			var mounts string
			for _, m := range a.Edits.Mounts {
				mounts = m.ContainerPath
				if m.HostPath != "/dev/null" {
					t.Errorf("%+v", m)
				}
			}
			if err != nil || strings.Join(a.Edits.Env, " ") != c.env || mounts != c.mounts || len(a.Edits.Nodes) != c.nodes || len(a.CDI) != c.cdi {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

func TestAllocationID(t *testing.T) {
	if AllocationID(gpu, []string{"a", "b"}) != AllocationID(gpu, []string{"b", "a"}) {
		t.Error("the order of IDs matters")
	}
	if AllocationID(gpu, []string{"ab"}) == AllocationID(gpu, []string{"a", "b"}) || AllocationID(gpu, []string{"a"}) == AllocationID(gpu+"a", nil) {
		t.Error("different allocations have one ID")
	}
}

func TestPreStart(t *testing.T) {
	byAmount := func(o *Options) { o.Amounts = func(string) bool { return true } }
	cases := []struct {
		name   string
		change func(*Options)
		fill   func(*node)
		ids    []string
		want   []device.Grant
		wrong  string
	}{
		{"whole", nil, func(n *node) { n.add("p", `{"index":1,"uuid":"GPU-b"}`, map[string]string{gpu: "1"}, "GPU-a") }, []string{"GPU-a"}, []device.Grant{{UUID: "GPU-a"}}, ""},
		{"turn", nil, func(n *node) { n.add("p", "", map[string]string{gpu: "1"}, "GPU-a::3") }, []string{"GPU-a::3"}, []device.Grant{{UUID: "GPU-a", Turn: true, Number: 3}}, ""},
		{"unequal amounts on two cards", byAmount, func(n *node) {
			n.add("p", `{"index":0,"uuid":"GPU-a","memoryMiB":300,"computeMilli":300},{"index":1,"uuid":"GPU-b","memoryMiB":700,"computeMilli":700}`, map[string]string{gpu: "2", "nvidia.com/gpumem": "300"}, "GPU-a::0", "GPU-b::9")
		}, []string{"GPU-b::9", "GPU-a::0"}, []device.Grant{{UUID: "GPU-a", MemoryMiB: 300, ComputeMilli: 300}, {UUID: "GPU-b", MemoryMiB: 700, ComputeMilli: 700}}, ""},
		{"the amounts of others", byAmount, func(n *node) {
			n.add("o", `{"index":0,"uuid":"GPU-a","memoryMiB":300,"computeMilli":600}`, map[string]string{gpu: "1", "nvidia.com/gpumem": "300"}, "GPU-a::0")
			n.add("p", `{"index":0,"uuid":"GPU-a","memoryMiB":300,"computeMilli":500}`, map[string]string{gpu: "1", "nvidia.com/gpumem": "300"}, "GPU-a::1")
		}, []string{"GPU-a::1"}, nil, "1100"},
		{"more memory than there is", byAmount, func(n *node) {
			n.add("o", `{"index":0,"uuid":"GPU-a","memoryMiB":600}`, map[string]string{gpu: "1", "nvidia.com/gpumem": "600"}, "GPU-a::0")
			n.add("p", `{"index":0,"uuid":"GPU-a","memoryMiB":500}`, map[string]string{gpu: "1", "nvidia.com/gpumem": "500"}, "GPU-a::1")
		}, []string{"GPU-a::1"}, nil, "1100 MiB of 1000"},
		{"first come, first served", byAmount, func(n *node) {
			n.add("p", `{"index":0,"uuid":"GPU-a","memoryMiB":600}`, map[string]string{gpu: "1", "nvidia.com/gpumem": "600"}, "GPU-a::0")
			n.add("o", `{"index":0,"uuid":"GPU-a","memoryMiB":500}`, map[string]string{gpu: "1", "nvidia.com/gpumem": "500"}, "GPU-a::1")
		}, []string{"GPU-a::0"}, []device.Grant{{UUID: "GPU-a", MemoryMiB: 600}}, ""},
		{"a whole card beside amounts", byAmount, func(n *node) {
			n.add("o", `{"index":0,"uuid":"GPU-a","memoryMiB":600}`, map[string]string{gpu: "1", "nvidia.com/gpumem": "600"}, "GPU-a::0")
			n.add("p", `{"index":0,"uuid":"GPU-a"}`, map[string]string{gpu: "1"}, "GPU-a::1")
		}, []string{"GPU-a::1"}, nil, "ns/o"},
		{"amounts without a record", byAmount, func(n *node) { n.add("p", "", map[string]string{gpu: "1", "nvidia.com/gpucores": "30"}, "GPU-a::0") }, []string{"GPU-a::0"}, nil, "spec.containers[0].resources.limits[nvidia.com/gpucores]"},
		{"amounts without CDI", func(o *Options) { byAmount(o); o.CDI = nil }, func(n *node) {
			n.add("p", `{"index":0,"uuid":"GPU-a","memoryMiB":600}`, map[string]string{gpu: "1", "nvidia.com/gpumem": "600"}, "GPU-a::0")
		}, []string{"GPU-a::0"}, nil, "need deviceListStrategy cdi-cri"},
		{"own environment", func(o *Options) { o.CDI, o.Mounts = nil, true }, func(n *node) {
			p := n.add("p", "", map[string]string{gpu: "1"}, "GPU-a")
			p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A"}, {Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}}
		}, []string{"GPU-a"}, nil, "spec.containers[0].env[1]"},
		{"own environment with CDI", nil, func(n *node) {
			p := n.add("p", "", map[string]string{gpu: "1"}, "GPU-a")
			p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}}
		}, []string{"GPU-a"}, []device.Grant{{UUID: "GPU-a"}}, ""},
		{"a rival that runs", nil, func(n *node) {
			n.add("p", "", map[string]string{gpu: "1"}, "GPU-a")
			o := n.add("o", "", map[string]string{gpu: "1"}, "GPU-a::0")
			o.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
		}, []string{"GPU-a"}, nil, "ns/o"},
		{"the specification fails", func(o *Options) {
			o.Spec = func(context.Context, device.Allocation) error { return errors.New("disk full") }
		}, func(n *node) { n.add("p", "", map[string]string{gpu: "1"}, "GPU-a") }, []string{"GPU-a"}, nil, "disk full"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			n := &node{}
			c.fill(n)
			var made *device.Allocation
			refused := 0
			g := newGranter(t, n, func(o *Options) {
				o.Spec = func(_ context.Context, a device.Allocation) error { made = &a; return nil }
				o.Refused = func(string, error) { refused++ }
				if c.change != nil {
					c.change(o)
				}
			})
			err := g.PreStart(t.Context(), gpu, c.ids)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) || made != nil || refused != 1 {
					t.Errorf("%v, made %+v, refused %d", err, made, refused)
				}
				return
			}
			if err != nil || made == nil || made.Pod != "p" || made.Container != "c" || !slices.Equal(made.Devices, c.want) || made.ID != AllocationID(gpu, c.ids) {
				t.Errorf("%v, %+v", err, made)
			}
			live, err := g.Live(t.Context())
			if err != nil || !slices.ContainsFunc(live, func(a device.Allocation) bool { return a.ID == made.ID }) {
				t.Errorf("%+v, %v", live, err)
			}
		})
	}
}

func TestOffers(t *testing.T) {
	got := Offers(inventory(), []Sale{
		{Resource: "whole"}, {Resource: "turns", Turns: 2}, {Resource: "me", Profile: "1g.18gb.me", OnDemand: true},
		{Resource: "made", Profile: "3g.71gb"}, {Resource: "single", Any: true}, {Resource: "none", Profile: "7g.141gb"},
		{Resource: "cuttable", Cuttable: true},
	}, map[string]bool{"MIG-i": true}, func(uuid string) bool { return uuid != "GPU-b" })
	want := map[string]string{
		"whole": "GPU-a GPU-b!", "turns": "GPU-a::0 GPU-a::1 GPU-b::0! GPU-b::1!",
		"me": "GPU-m::mig-1g.18gb+me@0 GPU-m::mig-1g.18gb+me@1", "made": "MIG-i", "single": "MIG-i", "none": "",
		"cuttable": "GPU-a GPU-b! GPU-m",
	}
	for _, o := range got {
		var ids []string
		for _, d := range o.Devices {
			id := d.ID
			if !d.Healthy {
				id += "!"
			}
			ids = append(ids, id)
		}
		if s := strings.Join(ids, " "); s != want[o.Resource] {
			t.Errorf("%s: %s", o.Resource, s)
		}
	}
	// What another program has cut is sold as it is, and in no other way.
	for _, o := range Offers(inventory(), []Sale{{Resource: "cuttable", Cuttable: true}, {Resource: "me", Profile: "1g.18gb.me", OnDemand: true}}, nil, func(string) bool { return true }) {
		if slices.ContainsFunc(o.Devices, func(d device.Sold) bool { return strings.HasPrefix(d.ID, "GPU-m") }) {
			t.Errorf("%+v", o)
		}
	}
}
