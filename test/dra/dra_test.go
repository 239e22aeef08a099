// Package dra tests dynamic resource allocation from outside: claims, slices and pods as
// users and drivers write them, on a real control plane with simulated nodes.
package dra

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// on pins a pod to a node.
func on(node string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": node} }
}

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
	w.t.Helper()
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
	if _, err := w.Client.ResourceV1().ResourceSlices().Create(context.Background(), s, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
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
		w.template("doors", "one", devices(request("gpu.tangram.dev", 1)))
		w.create(pod("doors", "claim", by("one"), on("both-0")))
		w.bound("doors", "claim")
		if j := w.sound(); len(j.planned["doors/claim"]) != 1 {
			t.Fatalf("planned: %v", j.planned)
		}
		w.create(pod("doors", "plugin-8", limit("nvidia.com/gpu", 8), on("both-0")))
		w.waits("doors", "plugin-8", "(7 of 8)")
		w.create(pod("doors", "plugin-7", limit("nvidia.com/gpu", 7), on("both-0")))
		w.bound("doors", "plugin-7")
		w.create(pod("doors", "claim-2", by("one"), on("both-0")))
		w.waits("doors", "claim-2", "(0 of 1)")
		w.sound()
	})
	t.Run("gang", func(t *testing.T) {
		w := w.on(t, "gang")
		w.template("gang", "four", devices(request("gpu.tangram.dev", 4)))
		var names []string
		for i := range 3 {
			names = append(names, fmt.Sprintf("m-%d", i))
			w.create(pod("gang", names[i], by("four"), gang("g", 3)))
		}
		w.bound("gang", names...)
		w.sound()
		for i := range 3 { // 2 of them would fit
			w.create(pod("gang", fmt.Sprintf("n-%d", i), by("four"), gang("h", 3)))
		}
		w.waits("gang", "n-0", "2 can be placed")
		w.sound()
	})
	t.Run("queue", func(t *testing.T) {
		w := w.on(t, "queue")
		w.apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: small}, spec: {capability: {nvidia.com/gpu: 3}}}")
		w.template("queue", "two", devices(request("gpu.tangram.dev", 2)))
		w.create(pod("queue", "a", by("two"), label("tangram.dev/queue", "small")))
		w.bound("queue", "a")
		w.create(pod("queue", "b", by("two"), label("tangram.dev/queue", "small")))
		w.waits("queue", "b", "queue small may use 3", "2 nvidia GPUs in use")
	})
	t.Run("selectors", func(t *testing.T) {
		w := w.on(t, "selectors")
		card := w.uuids("both-1")[5]
		w.template("selectors", "card", devices(request("gpu.tangram.dev", 1, fmt.Sprintf(`device.attributes["gpu.tangram.dev"].uuid == %q`, card))))
		w.create(pod("selectors", "a", by("card")))
		w.bound("selectors", "a")
		if got := w.sound().allocated["selectors/a"]; !slices.Equal(got, []string{card}) {
			t.Errorf("got %v, want %s", got, card)
		}
		w.create(pod("selectors", "b", by("card")))
		w.waits("selectors", "b", "(0 of 1)")
		w.template("selectors", "none", devices(request("gpu.tangram.dev", 1, `device.capacity["gpu.tangram.dev"].memory.compareTo(quantity("100Gi")) > 0`)))
		w.create(pod("selectors", "c", by("none")))
		w.waits("selectors", "c", "DeviceClass gpu.tangram.dev", "(0 of 1)")
		w.create(pod("selectors", "d", by("missing")))
		w.waits("selectors", "d", "missing")
		w.template("selectors", "classless", devices(request("nowhere", 1)))
		w.create(pod("selectors", "e", by("classless")))
		w.waits("selectors", "e", `DeviceClass "nowhere" does not exist`)
	})
	t.Run("alternatives and constraints", func(t *testing.T) {
		w := w.on(t, "lists")
		w.template("lists", "first", devices(resourceapi.DeviceRequest{Name: "gpus", FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "large", DeviceClassName: "gpu.tangram.dev", Selectors: request("", 0, `device.capacity["gpu.tangram.dev"].memory.compareTo(quantity("100Gi")) > 0`).Exactly.Selectors, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
			{Name: "two", DeviceClassName: "gpu.tangram.dev", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2},
		}}))
		w.create(pod("lists", "a", by("first"), on("only-0")))
		w.bound("lists", "a")
		if got := w.sound().allocated["lists/a"]; len(got) != 2 {
			t.Errorf("got %v", got)
		}
		root := resourceapi.FullyQualifiedName("resource.kubernetes.io/pcieRoot")
		near := devices(request("gpu.tangram.dev", 2))
		near.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &root}}
		w.template("lists", "near", near)
		far := devices(request("gpu.tangram.dev", 3))
		far.Constraints = near.Constraints
		w.template("lists", "far", far)
		w.create(pod("lists", "b", by("near"), on("both-0")), pod("lists", "c", by("near"), on("both-0")), pod("lists", "d", by("far"), on("both-0")))
		w.bound("lists", "b", "c")
		w.waits("lists", "d", "(2 of 3)")
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
		w.template("mig", "small", devices(small))
		w.template("mig", "large", devices(large))
		w.template("mig", "whole", devices(request("gpu.tangram.dev", 1)))
		w.create(pod("mig", "s0", by("small"), on("mig-0")), pod("mig", "s1", by("small"), on("mig-0")), pod("mig", "l0", by("large"), on("mig-0")))
		w.bound("mig", "s0", "s1", "l0")
		w.sound()
		// All three are on one card, so the other one is whole.
		w.create(pod("mig", "w0", by("whole"), on("mig-0")))
		w.bound("mig", "w0")
		w.create(pod("mig", "w1", by("whole"), on("mig-0")))
		w.waits("mig", "w1", "(0 of 1)")
		w.sound()
	})
	t.Run("capacity", func(t *testing.T) {
		w := w.on(t, "capacity")
		r := request("gpu.tangram.dev", 1)
		r.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("30Gi")}}
		r.Exactly.Selectors = request("", 0, `device.allowMultipleAllocations`).Exactly.Selectors
		w.template("capacity", "part", devices(r))
		for i := range 4 {
			w.create(pod("capacity", fmt.Sprintf("p%d", i), by("part"), on("share-0")))
		}
		w.bound("capacity", "p0", "p1", "p2", "p3")
		w.create(pod("capacity", "p4", by("part"), on("share-0")))
		w.waits("capacity", "p4", "30720 MiB")
		w.sound()
		// Cores count, too; and who says no amount gets a card of his own.
		w.clear("capacity")
		r = *r.DeepCopy()
		r.Exactly.Capacity.Requests = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("10Gi"), "cores": resource.MustParse("60")}
		w.template("capacity", "cores", devices(r))
		w.template("capacity", "whole", devices(request("gpu.tangram.dev", 1, `device.allowMultipleAllocations`)))
		w.create(pod("capacity", "c0", by("cores"), on("share-0")), pod("capacity", "w0", by("whole"), on("share-0")))
		w.bound("capacity", "c0", "w0")
		w.create(pod("capacity", "c1", by("cores"), on("share-0")))
		w.waits("capacity", "c1", "(0 of 1)")
		w.create(pod("capacity", "p5", by("part"), on("share-0"))) // beside c0
		w.bound("capacity", "p5")
		w.sound()
	})
	t.Run("shared claim", func(t *testing.T) {
		w := w.on(t, "shared")
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: resourceapi.ResourceClaimSpec{Devices: devices(request("gpu.tangram.dev", 2))}}
		if _, err := w.Client.ResourceV1().ResourceClaims("shared").Create(context.Background(), c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.create(pod("shared", "a", sharing("c"), on("only-0")), pod("shared", "b", sharing("c"), on("only-0")))
		w.bound("shared", "a", "b")
		w.template("shared", "three", devices(request("gpu.tangram.dev", 3)))
		w.create(pod("shared", "d", by("three"), on("only-0")))
		w.waits("shared", "d", "(2 of 3)")
	})
	t.Run("admin access", func(t *testing.T) {
		w := w.on(t, "admin")
		w.template("admin", "all", devices(request("gpu.tangram.dev", 4)))
		w.create(pod("admin", "user", by("all"), on("only-0")))
		w.bound("admin", "user")
		r := request("gpu.tangram.dev", 1)
		yes := true
		r.Exactly.AdminAccess = &yes
		w.template("admin", "look", devices(r))
		w.create(pod("admin", "monitor", by("look"), on("only-0")))
		w.bound("admin", "monitor")
		w.sound()
	})
	t.Run("preemption", func(t *testing.T) {
		w := w.on(t, "preemption")
		w.apply("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}")
		w.template("preemption", "two", devices(request("gpu.tangram.dev", 2)))
		w.template("preemption", "four", devices(request("gpu.tangram.dev", 4)))
		w.create(pod("preemption", "low-0", by("two"), on("only-0")), pod("preemption", "low-1", by("two"), on("only-0")))
		w.bound("preemption", "low-0", "low-1")
		w.create(pod("preemption", "high", by("four"), on("only-0"), func(p *v1.Pod) { p.Spec.PriorityClassName = "high" }))
		w.bound("preemption", "high")
		w.sound()
	})
	t.Run("preemption of pods that share a claim", func(t *testing.T) {
		w := w.on(t, "sharers")
		w.apply("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}")
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: resourceapi.ResourceClaimSpec{Devices: devices(request("gpu.tangram.dev", 4))}}
		if _, err := w.Client.ResourceV1().ResourceClaims("sharers").Create(context.Background(), c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.create(pod("sharers", "a", sharing("c"), on("only-0")), pod("sharers", "b", sharing("c"), on("only-0")))
		w.bound("sharers", "a", "b")
		w.template("sharers", "four", devices(request("gpu.tangram.dev", 4)))
		w.create(pod("sharers", "high", by("four"), on("only-0"), func(p *v1.Pod) { p.Spec.PriorityClassName = "high" }))
		w.bound("sharers", "high")
		for _, name := range []string{"a", "b"} {
			if p, err := w.Client.CoreV1().Pods("sharers").Get(context.Background(), name, metav1.GetOptions{}); err == nil && p.DeletionTimestamp == nil {
				t.Errorf("pod %s uses the GPUs of another", name)
			}
		}
		w.sound()
	})
	// Last: the class makes claims of what was a device plugin's before.
	t.Run("extended resource", func(t *testing.T) {
		w := w.on(t, "extended")
		w.create(pod("extended", "before", limit("nvidia.com/gpu", 3), on("only-0")))
		w.waits("extended", "before", "nvidia.com/gpu")
		w.apply(`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: backed}, spec: {extendedResourceName: nvidia.com/gpu, selectors: [{cel: {expression: 'device.driver == "gpu.tangram.dev" && device.attributes["gpu.tangram.dev"].type == "gpu"'}}]}}`)
		w.bound("extended", "before")
		w.template("extended", "two", devices(request("gpu.tangram.dev", 2)))
		w.create(pod("extended", "claim", by("two"), on("only-0")), pod("extended", "plugin", limit("nvidia.com/gpu", 2), on("both-0")))
		w.waits("extended", "claim", "(1 of 2)")
		w.bound("extended", "plugin")
		if s := w.get("extended", "plugin").Status.ExtendedResourceClaimStatus; s != nil {
			t.Errorf("a device plugin serves it, but it has claim %s", s.ResourceClaimName)
		}
		w.sound()
	})
}

func index(list []string, s string) int { return slices.Index(list, s) }
