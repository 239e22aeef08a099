// Package dra tests dynamic resource allocation from outside: claims, slices and pods as
// users and drivers write them, on a real control plane with simulated nodes.
package dra

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/test/cluster"
)

// on pins a pod to a node.
func on(node string) cluster.Change { return cluster.On("kubernetes.io/hostname", node) }

// cuttable adds counters and MIG devices to the first GPUs, as many as a slice has room for:
// a card has 8 memory slices.
func cuttable(s *resourceapi.ResourceSlice) {
	one := resourceapi.Counter{Value: resource.MustParse("1")}
	all := func(from, to int) map[string]resourceapi.Counter {
		out := map[string]resourceapi.Counter{}
		for i := from; i < to; i++ {
			out[fmt.Sprintf("memory-slice-%d", i)] = one
		}
		return out
	}
	for i := range min(len(s.Spec.Devices), maxCuttable) {
		card := &s.Spec.Devices[i]
		set := fmt.Sprintf("card-%d", i)
		card.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: all(0, 8)}}
		parent := text(card, "uuid")
		for _, cut := range []struct {
			profile string
			size    int
			starts  []int
		}{{"1g.10gb", 1, []int{0, 1, 2, 3, 4, 5, 6}}, {"3g.40gb", 4, []int{0, 4}}} {
			for _, start := range cut.starts {
				s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
					Name:             fmt.Sprintf("gpu-%d-mig-%s-%d", i, strings.ReplaceAll(cut.profile, ".", "-"), start),
					Attributes:       attributes("type", "mig", "parentUUID", parent, "profile", cut.profile, "productName", "NVIDIA A100-SXM4-80GB"),
					Capacity:         map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(fmt.Sprintf("%dGi", 10*cut.size))}},
					ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: all(start, start+cut.size)}},
				})
			}
		}
	}
	s.Spec.Pool.ResourceSliceCount = 2
}

// maxCuttable keeps a slice below the 64 devices that it may have.
const maxCuttable = 4

// counters creates the slice with the counters of a node's cards.
func (w *world) counters(node string, cards int) {
	w.T.Helper()
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-counters"},
		Spec:       resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 2, Generation: 1}},
	}
	for i := range cards {
		set := resourceapi.CounterSet{Name: fmt.Sprintf("card-%d", i), Counters: map[string]resourceapi.Counter{}}
		for j := range 8 {
			set.Counters[fmt.Sprintf("memory-slice-%d", j)] = resourceapi.Counter{Value: resource.MustParse("1")}
		}
		s.Spec.SharedCounters = append(s.Spec.SharedCounters, set)
	}
	_, err := w.Client.ResourceV1().ResourceSlices().Create(context.Background(), s, metav1.CreateOptions{})
	w.Must(err)
}

// shareable lets several claims have a card at once.
func shareable(s *resourceapi.ResourceSlice) {
	yes, none := true, resource.MustParse("0")
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		d.AllowMultipleAllocations = &yes
		d.Capacity["cores"] = resourceapi.DeviceCapacity{Value: resource.MustParse("100"), RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &none}}
	}
}

// TestClaims: each feature of claims, beside device-plugin pods, on nodes of all kinds.
func TestClaims(t *testing.T) {
	w := newWorld(t, `[{name: both, count: 2, gpu: {model: A100-80GB, count: 8}}, {name: only, count: 1}, {name: mig, count: 1}, {name: share, count: 1}]`)
	w.publish("both-0", 8)
	w.publish("both-1", 8)
	w.publish("only-0", 4)
	w.publish("mig-0", 2, cuttable)
	w.counters("mig-0", 2)
	w.publish("share-0", 2, shareable)
	w.scheduler()

	t.Run("one card, two doors", func(t *testing.T) {
		w := w.on(t, "doors")
		w.template("one", devices(request("gpu.tangram.dev", 1)))
		w.create(pod("claim", by("one"), on("both-0")))
		w.Bound("claim")
		if j := w.sound(); len(j.planned["doors/claim"]) != 1 {
			t.Fatalf("planned: %v", j.planned)
		}
		w.create(pod("plugin-8", limit("nvidia.com/gpu", 8), on("both-0")))
		w.Waits("plugin-8", "(7 of 8)")
		w.create(pod("plugin-7", limit("nvidia.com/gpu", 7), on("both-0")))
		w.Bound("plugin-7")
		w.create(pod("claim-2", by("one"), on("both-0")))
		w.Waits("claim-2", "(0 of 1)")
		w.sound()
	})
	t.Run("gang", func(t *testing.T) {
		w := w.on(t, "gang")
		w.template("four", devices(request("gpu.tangram.dev", 4)))
		var names []string
		for i := range 3 {
			names = append(names, fmt.Sprintf("m-%d", i))
			w.create(pod(names[i], by("four"), cluster.Gang("g", 3)))
		}
		w.Bound(names...)
		w.sound()
		for i := range 3 { // 2 of them would fit
			w.create(pod(fmt.Sprintf("n-%d", i), by("four"), cluster.Gang("h", 3)))
		}
		w.Waits("n-0", "2 can be placed")
		w.sound()
	})
	t.Run("queue", func(t *testing.T) {
		w := w.on(t, "queue")
		w.AddQueue("small", "{capability: {nvidia.com/gpu: 3}}")
		w.template("two", devices(request("gpu.tangram.dev", 2)))
		w.create(pod("a", by("two"), cluster.Queue("small")))
		w.Bound("a")
		w.create(pod("b", by("two"), cluster.Queue("small")))
		w.Waits("b", "queue small may use 3", "2 nvidia GPUs in use")
	})
	t.Run("selectors", func(t *testing.T) {
		w := w.on(t, "selectors")
		card := w.uuids("both-1")[5]
		w.template("card", devices(request("gpu.tangram.dev", 1, fmt.Sprintf(`device.attributes["gpu.tangram.dev"].uuid == %q`, card))))
		w.create(pod("a", by("card")))
		w.Bound("a")
		if got := w.sound().allocated["selectors/a"]; !slices.Equal(got, []string{card}) {
			t.Errorf("got %v, want %s", got, card)
		}
		w.create(pod("b", by("card")))
		w.Waits("b", "(0 of 1)")
		w.template("none", devices(request("gpu.tangram.dev", 1, `device.capacity["gpu.tangram.dev"].memory.compareTo(quantity("100Gi")) > 0`)))
		w.create(pod("c", by("none")))
		w.Waits("c", "DeviceClass gpu.tangram.dev", "(0 of 1)")
		w.create(pod("d", by("missing")))
		w.Waits("d", "missing")
		w.template("classless", devices(request("nowhere", 1)))
		w.create(pod("e", by("classless")))
		w.Waits("e", `DeviceClass "nowhere" does not exist`)
	})
	t.Run("alternatives and constraints", func(t *testing.T) {
		w := w.on(t, "lists")
		w.template("first", devices(resourceapi.DeviceRequest{Name: "gpus", FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "large", DeviceClassName: "gpu.tangram.dev", Selectors: request("", 0, `device.capacity["gpu.tangram.dev"].memory.compareTo(quantity("100Gi")) > 0`).Exactly.Selectors, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
			{Name: "two", DeviceClassName: "gpu.tangram.dev", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2},
		}}))
		w.create(pod("a", by("first"), on("only-0")))
		w.Bound("a")
		if got := w.sound().allocated["lists/a"]; len(got) != 2 {
			t.Errorf("got %v", got)
		}
		root := resourceapi.FullyQualifiedName("resource.kubernetes.io/pcieRoot")
		near := devices(request("gpu.tangram.dev", 2))
		near.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &root}}
		w.template("near", near)
		far := devices(request("gpu.tangram.dev", 3))
		far.Constraints = near.Constraints
		w.template("far", far)
		w.create(pod("b", by("near"), on("both-0")), pod("c", by("near"), on("both-0")), pod("d", by("far"), on("both-0")))
		w.Bound("b", "c")
		w.Waits("d", "(2 of 3)")
		for _, p := range []string{"b", "c"} {
			if got := w.sound().allocated["lists/"+p]; len(got) != 2 || index(w.uuids("both-0"), got[0])/2 != index(w.uuids("both-0"), got[1])/2 {
				t.Errorf("%s: %v are not behind one root", p, got)
			}
		}
	})
	t.Run("partitions", func(t *testing.T) {
		w := w.on(t, "mig")
		small := request("mig.tangram.dev", 1, `device.attributes["gpu.tangram.dev"].profile == "1g.10gb"`)
		large := request("mig.tangram.dev", 1, `device.attributes["gpu.tangram.dev"].profile == "3g.40gb"`)
		w.template("small", devices(small))
		w.template("large", devices(large))
		w.template("whole", devices(request("gpu.tangram.dev", 1)))
		w.create(pod("s0", by("small"), on("mig-0")), pod("s1", by("small"), on("mig-0")), pod("l0", by("large"), on("mig-0")))
		w.Bound("s0", "s1", "l0")
		w.sound()
		// All three are on one card, so the other one is whole.
		w.create(pod("w0", by("whole"), on("mig-0")))
		w.Bound("w0")
		w.create(pod("w1", by("whole"), on("mig-0")))
		w.Waits("w1", "(0 of 1)")
		w.sound()
	})
	t.Run("capacity", func(t *testing.T) {
		w := w.on(t, "capacity")
		r := request("gpu.tangram.dev", 1)
		r.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("30Gi")}}
		r.Exactly.Selectors = request("", 0, `device.allowMultipleAllocations`).Exactly.Selectors
		w.template("part", devices(r))
		for i := range 4 {
			w.create(pod(fmt.Sprintf("p%d", i), by("part"), on("share-0")))
		}
		w.Bound("p0", "p1", "p2", "p3")
		w.create(pod("p4", by("part"), on("share-0")))
		w.Waits("p4", "30720 MiB")
		w.sound()
		// Cores count, too; and a claim without an amount gets a card of its own.
		w.clear()
		r = *r.DeepCopy()
		r.Exactly.Capacity.Requests = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("10Gi"), "cores": resource.MustParse("60")}
		w.template("cores", devices(r))
		w.template("whole", devices(request("gpu.tangram.dev", 1, `device.allowMultipleAllocations`)))
		w.create(pod("c0", by("cores"), on("share-0")), pod("w0", by("whole"), on("share-0")))
		w.Bound("c0", "w0")
		w.create(pod("c1", by("cores"), on("share-0")))
		w.Waits("c1", "(0 of 1)")
		w.create(pod("p5", by("part"), on("share-0"))) // beside c0
		w.Bound("p5")
		w.sound()
	})
	t.Run("shared claim", func(t *testing.T) {
		w := w.on(t, "shared")
		w.claim("c", devices(request("gpu.tangram.dev", 2)))
		w.create(pod("a", sharing("c"), on("only-0")), pod("b", sharing("c"), on("only-0")))
		w.Bound("a", "b")
		w.template("three", devices(request("gpu.tangram.dev", 3)))
		w.create(pod("d", by("three"), on("only-0")))
		w.Waits("d", "(2 of 3)")
	})
	t.Run("admin access", func(t *testing.T) {
		w := w.on(t, "admin")
		w.template("all", devices(request("gpu.tangram.dev", 4)))
		w.create(pod("user", by("all"), on("only-0")))
		w.Bound("user")
		r := request("gpu.tangram.dev", 1)
		yes := true
		r.Exactly.AdminAccess = &yes
		w.template("look", devices(r))
		w.create(pod("monitor", by("look"), on("only-0")))
		w.Bound("monitor")
		w.sound()
	})
	t.Run("preemption", func(t *testing.T) {
		w := w.on(t, "preemption")
		w.AddPriorityClass("high", 1000)
		w.template("two", devices(request("gpu.tangram.dev", 2)))
		w.template("four", devices(request("gpu.tangram.dev", 4)))
		w.create(pod("low-0", by("two"), on("only-0")), pod("low-1", by("two"), on("only-0")))
		w.Bound("low-0", "low-1")
		w.create(pod("high", by("four"), on("only-0"), cluster.Priority("high")))
		w.Bound("high")
		w.sound()
	})
	t.Run("preemption of pods that share a claim", func(t *testing.T) {
		w := w.on(t, "sharers")
		w.AddPriorityClass("high", 1000)
		w.claim("c", devices(request("gpu.tangram.dev", 4)))
		w.create(pod("a", sharing("c"), on("only-0")), pod("b", sharing("c"), on("only-0")))
		w.Bound("a", "b")
		w.template("four", devices(request("gpu.tangram.dev", 4)))
		w.create(pod("high", by("four"), on("only-0"), cluster.Priority("high")))
		w.Bound("high")
		for _, name := range []string{"a", "b"} {
			if p := w.Find(name); p != nil && p.DeletionTimestamp == nil {
				t.Errorf("pod %s uses the GPUs of another", name)
			}
		}
		w.sound()
	})
	// Last: the class makes claims of what was a device plugin's before.
	t.Run("extended resource", func(t *testing.T) {
		w := w.on(t, "extended")
		w.create(pod("before", limit("nvidia.com/gpu", 3), on("only-0")))
		w.Waits("before", "nvidia.com/gpu")
		w.Apply(`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: backed}, spec: {extendedResourceName: nvidia.com/gpu, selectors: [{cel: {expression: 'device.driver == "gpu.tangram.dev" && device.attributes["gpu.tangram.dev"].type == "gpu"'}}]}}`)
		w.Bound("before")
		w.template("two", devices(request("gpu.tangram.dev", 2)))
		w.create(pod("claim", by("two"), on("only-0")), pod("plugin", limit("nvidia.com/gpu", 2), on("both-0")))
		w.Waits("claim", "(1 of 2)")
		w.Bound("plugin")
		if s := w.Get("plugin").Status.ExtendedResourceClaimStatus; s != nil {
			t.Errorf("a device plugin serves it, but it has claim %s", s.ResourceClaimName)
		}
		w.sound()
	})
}

func index(list []string, s string) int { return slices.Index(list, s) }
