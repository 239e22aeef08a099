package dialect

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
)

func textAttribute(s string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{StringValue: &s}
}

// sliceOfCards is a slice with cards of the given UUIDs.
func sliceOfCards(driver string, uuids ...string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: driver, Pool: resourceapi.ResourcePool{Name: "n", Generation: 1}}}
	for i, u := range uuids {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"type": textAttribute("gpu"), "uuid": textAttribute(u), "productName": textAttribute("NVIDIA A100-SXM4-80GB")},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
		})
	}
	return s
}

func plainNode(gpus int64) *v1.Node {
	n := &v1.Node{}
	n.Name = "n"
	if gpus > 0 {
		n.Status.Allocatable = v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(gpus, resource.DecimalSI)}
	}
	return n
}

// TestPublishedAlone: a node that only publishes slices has the cards; claims alone get them
// unless a class stands for the extended resource.
func TestPublishedAlone(t *testing.T) {
	for _, backed := range [][]v1.ResourceName{nil, {names.ResourceNVIDIA}} {
		node := plainNode(0)
		n, _ := Describe(node, Facts{})
		only, err := AddPublished(n, node, Publish([]*resourceapi.ResourceSlice{sliceOfCards("gpu.nvidia.com", "a", "b"), sliceOfCards("nic.example.com", "x")}), backed)
		if err != nil || !only || len(n.Devices) != 2 || n.Sellable[model.NVIDIA] != 2 || n.Devices[1].UUID != "b" || n.Devices[0].Memory != 80*1024 {
			t.Fatalf("%v %v %+v", only, err, n)
		}
		if got := n.Extras.Amount(names.ResourceNVIDIA); got != int64(2*len(backed)) {
			t.Errorf("offers %d of the extended resource, backed %v", got, backed)
		}
	}
}

// TestPublishedBeside: cards that are known otherwise are the same cards, by UUID or, where
// only their number is known, in order. Two drivers publish a card once.
func TestPublishedBeside(t *testing.T) {
	node := plainNode(2)
	n, _ := Describe(node, Facts{})
	all := Publish([]*resourceapi.ResourceSlice{sliceOfCards("gpu.nvidia.com", "a", "b"), sliceOfCards("gpu.tangram.dev", "b", "a")})
	if only, err := AddPublished(n, node, all, []v1.ResourceName{names.ResourceNVIDIA}); err != nil || only || len(n.Devices) != 2 || n.Devices[0].UUID != "a" || n.Sellable[model.NVIDIA] != 2 {
		t.Fatalf("%v %v %+v", only, err, n)
	}
	// Known by UUID, in another order, one more of them.
	if _, err := AddPublished(n, node, Publish([]*resourceapi.ResourceSlice{sliceOfCards("gpu.nvidia.com", "b", "c", "a")}), nil); err != nil || len(n.Devices) != 3 || n.Devices[2].UUID != "c" {
		t.Fatalf("%v %+v", err, n.Devices)
	}
}

// TestPublishedOddly: what drivers publish wrongly is reported and changes nothing; older
// generations of a pool do not count.
func TestPublishedOddly(t *testing.T) {
	node := plainNode(0)
	n, _ := Describe(node, Facts{})
	var many []string
	for i := range model.MaxDevices + 1 {
		many = append(many, fmt.Sprint(i))
	}
	if _, err := AddPublished(n, node, Publish([]*resourceapi.ResourceSlice{sliceOfCards("gpu.nvidia.com", many...)}), nil); err == nil || len(n.Devices) != 0 {
		t.Errorf("%v, %d devices", err, len(n.Devices))
	}
	old := sliceOfCards("gpu.nvidia.com", "gone")
	old.Spec.Pool.Generation = 0
	if got := Publish([]*resourceapi.ResourceSlice{old, sliceOfCards("gpu.nvidia.com", "a")}); len(got) != 1 || got[0].Card != "a" {
		t.Errorf("%+v", got)
	}
	bare := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.nvidia.com", Pool: resourceapi.ResourcePool{Name: "p"}, Devices: []resourceapi.Device{{Name: "x"}, {Name: "m", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"type": textAttribute("mig")}}}}}
	got := Publish([]*resourceapi.ResourceSlice{bare})
	if got[1].Card != "gpu.nvidia.com/p/x" || got[0].Whole() || got[0].Start != -1 {
		t.Errorf("%+v", got)
	}
	if _, err := AddPublished(n, node, got, nil); err != nil {
		t.Error(err)
	}
}

// TestPublishedBySlice: while a driver writes a new generation slice by slice, the last
// complete one counts, in whatever order the slices are seen.
func TestPublishedBySlice(t *testing.T) {
	of := func(generation, count int64, uuids ...string) *resourceapi.ResourceSlice {
		s := sliceOfCards("gpu.nvidia.com", uuids...)
		s.Spec.Pool.Generation, s.Spec.Pool.ResourceSliceCount = generation, count
		return s
	}
	for _, c := range []struct {
		name string
		from []*resourceapi.ResourceSlice
		want []string
	}{
		{"half of the next", []*resourceapi.ResourceSlice{of(1, 1, "a", "b"), of(2, 2, "a")}, []string{"a", "b"}},
		{"all of the next", []*resourceapi.ResourceSlice{of(1, 1, "a", "b"), of(2, 2, "a"), of(2, 2, "c")}, []string{"a", "c"}},
		{"half of the one before", []*resourceapi.ResourceSlice{of(2, 2, "a"), of(3, 2, "c"), of(1, 2, "b")}, []string{"c"}},
		{"the first comes", []*resourceapi.ResourceSlice{of(1, 2, "a")}, []string{"a"}},
	} {
		for range 2 {
			slices.Reverse(c.from)
			var got []string
			for _, p := range Publish(c.from) {
				got = append(got, p.Card)
			}
			if slices.Sort(got); !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	}
}

// TestPublishedCuts: MIG devices are cuts of their card at the slices that their counters
// name.
func TestPublishedCuts(t *testing.T) {
	s := sliceOfCards("gpu.nvidia.com", "a")
	for _, cut := range []struct {
		profile     string
		start, size int
	}{{"1g.10gb", 0, 1}, {"1g.10gb", 1, 1}, {"3g.40gb", 4, 4}} {
		counters := map[string]resourceapi.Counter{"multiprocessors": {}}
		for i := cut.start; i < cut.start+cut.size; i++ {
			counters[fmt.Sprintf("memory-slice-%d", i)] = resourceapi.Counter{Value: resource.MustParse("1")}
		}
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name:             fmt.Sprintf("mig-%d-%d", cut.start, cut.size),
			Attributes:       map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"type": textAttribute("mig"), "parentUUID": textAttribute("a"), "profile": textAttribute(cut.profile)},
			ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "a", Counters: counters}},
		})
	}
	node := plainNode(0)
	n, _ := Describe(node, Facts{})
	if _, err := AddPublished(n, node, Publish([]*resourceapi.ResourceSlice{s}), nil); err != nil || len(n.Devices) != 1 {
		t.Fatalf("%v %+v", err, n.Devices)
	}
	d := n.Devices[0]
	if d.Fixed || d.MIGSlices != 8 || len(d.MIG) != 2 {
		t.Fatalf("%+v", d)
	}
	for _, p := range d.MIG {
		if p.Name == "1g.10gb" && fmt.Sprint(p.Starts) != "[0 1]" || p.Name == "3g.40gb" && (fmt.Sprint(p.Starts) != "[4]" || p.Size != 4) {
			t.Errorf("%+v", p)
		}
	}
	s.Spec.Devices = s.Spec.Devices[1:] // cut for good: the card itself is not published
	n, _ = Describe(node, Facts{})
	if _, err := AddPublished(n, node, Publish([]*resourceapi.ResourceSlice{s}), nil); err != nil || !n.Devices[0].Fixed {
		t.Errorf("%v %+v", err, n.Devices)
	}
}
