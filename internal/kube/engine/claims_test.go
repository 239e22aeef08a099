package engine

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/dra"
)

// claimSetup is a setup whose one node publishes its eight GPUs as well.
type claimSetup struct {
	*setup
	claimStore cache.Store
}

func newClaimSetup(t *testing.T) *claimSetup {
	t.Helper()
	s := &claimSetup{setup: makeSetup(t, 1, true)}
	api := s.factory.Resource().V1()
	s.claimStore = api.ResourceClaims().Informer().GetStore()
	must(t, api.DeviceClasses().Informer().GetStore().Add(&resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: `device.driver == "gpu.nvidia.com"`}}}},
	}))
	node := "n0"
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "n0"}, Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.nvidia.com", NodeName: &node, Pool: resourceapi.ResourcePool{Name: "n0", ResourceSliceCount: 1}}}
	for i := range 8 {
		uuid := fmt.Sprintf("GPU-%d", i)
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"uuid": {StringValue: &uuid}}})
	}
	must(t, api.ResourceSlices().Informer().GetStore().Add(slice))
	s.look(nil, "n0")
	return s
}

// claim writes a claim for GPUs, with a change, and tells the feed.
func (s *claimSetup) claim(name string, count int64, change func(*resourceapi.ResourceClaim)) {
	s.t.Helper()
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}, Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: count, AllocationMode: resourceapi.DeviceAllocationModeExactCount}}},
	}}}
	if change != nil {
		change(c)
	}
	must(s.t, s.claimStore.Update(c))
	s.Push(ClaimEvent("default/" + name))
}

// allocate allocates a claim to cards of the node, reserved for a pod.
func allocate(p *v1.Pod, cards model.Mask) func(*resourceapi.ResourceClaim) {
	return func(c *resourceapi.ResourceClaim) {
		c.Status.Allocation = &resourceapi.AllocationResult{}
		for slot := range cards.Slots() {
			c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{Driver: "gpu.nvidia.com", Pool: "n0", Device: fmt.Sprintf("gpu-%d", slot)})
		}
		if p != nil {
			c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
		}
	}
}

// user is a pod of this scheduler that names a claim.
func (s *claimSetup) user(name, claim string) *v1.Pod {
	p := s.member(name, "", 0, 0)
	delete(p.Spec.Containers[0].Resources.Requests, names.ResourceNVIDIA)
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim}}
	return p
}

// free is how many GPUs of the node are free.
func (s *claimSetup) free() (n int) {
	s.do("test", func(*driver, time.Time) { n = 8 - s.driver.core.Nodes.Unfree("n0", "").Count() })
	return n
}

// released waits until a pod has its place: selectors are evaluated beside the engine.
func (s *claimSetup) placed(p *v1.Pod) model.Mask {
	s.t.Helper()
	s.eventually(p.Name+" has a place", func() bool { s.Step(); return s.gate.Released(p) })
	_, set := s.heldBy(p)
	return set
}

// TestClaimFromPlanToEnd: at no moment between the plan and the deallocation are a claim's
// GPUs free, in whatever order the informers tell of pod and claim.
func TestClaimFromPlanToEnd(t *testing.T) {
	s := newClaimSetup(t)
	s.claim("c", 3, nil)
	p := s.user("p", "c")
	s.add(p)
	set := s.placed(p)
	if set.Count() != 3 || s.free() != 5 {
		t.Fatalf("planned %b, %d free", set, s.free())
	}
	r := s.release(p)
	if ready, _, ok := s.Reserved(p, r.Ticket); !ready || !ok {
		t.Fatal("not reserved")
	}
	// Bound is seen before the allocation, which was written before.
	s.edit("p", func(p *v1.Pod) { p.Spec.NodeName = "n0" })
	s.Step()
	if s.free() != 5 {
		t.Fatalf("%d free while the claim's informer lags", s.free())
	}
	s.claim("c", 3, allocate(p, set))
	s.Step()
	if _, got := s.heldBy(p); got != set || s.free() != 5 {
		t.Fatalf("holds %b, planned %b, %d free", got, set, s.free())
	}
	if _, err := s.Check(); err != nil {
		t.Error(err)
	}
	// Other pods see what is left.
	other := s.member("other", "", 0, 6)
	s.add(other)
	if s.Step(); s.gate.Released(other) {
		t.Fatal("6 of 5 GPUs were given")
	}
	// The pod ends; the claim holds on until it is deallocated.
	s.deletePod("p")
	if s.Step(); s.free() != 5 || s.gate.Released(other) {
		t.Fatalf("%d free with an allocated claim", s.free())
	}
	if _, err := s.Check(); err != nil {
		t.Error(err)
	}
	s.claim("c", 3, nil)
	if s.Step(); !s.gate.Released(other) {
		t.Fatal("the GPUs of a deallocated claim are not given")
	}
}

// TestClaimOfAnotherScheduler: what is allocated elsewhere is held here, for the claim and
// then for the pod that uses it, once.
func TestClaimOfAnotherScheduler(t *testing.T) {
	s := newClaimSetup(t)
	foreign := s.user("foreign", "c")
	foreign.Spec.SchedulerName = "default-scheduler"
	s.claim("c", 2, allocate(foreign, 0b11))
	s.Step()
	if s.free() != 6 {
		t.Fatalf("%d free", s.free())
	}
	foreign.Spec.NodeName = "n0"
	s.add(foreign)
	s.Step()
	if _, got := s.heldBy(foreign); got != 0b11 || s.free() != 6 {
		t.Fatalf("holds %b, %d free", got, s.free())
	}
	if _, err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestPend: what the allocator chose for a pod that the engine does not place is held until
// it is confirmed or taken back, and nothing is held twice.
func TestPend(t *testing.T) {
	s := newClaimSetup(t)
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "uid-c"}}
	allocate(nil, 0b1)(c)
	if refusal := s.HoldClaims([]*resourceapi.ResourceClaim{c}); refusal != nil || s.free() != 7 {
		t.Fatalf("%v, %d free", refusal, s.free())
	}
	again := c.DeepCopy()
	again.Name, again.UID = "d", "uid-d"
	if refusal := s.HoldClaims([]*resourceapi.ResourceClaim{again}); refusal == nil || s.free() != 7 {
		t.Fatalf("held twice: %v, %d free", refusal, s.free())
	}
	s.claim("c", 1, nil) // seen before its allocation
	if s.Sync(); s.free() != 7 {
		t.Fatalf("%d free", s.free())
	}
	s.UnholdClaims([]*resourceapi.ResourceClaim{c})
	if s.Sync(); s.free() != 8 {
		t.Fatalf("%d free", s.free())
	}
}

// TestImplicitResource: GPUs by the implicit extended resource of a class are refused, by
// field, in a queue or in none; classes of other devices are the allocator's.
func TestImplicitResource(t *testing.T) {
	s := newClaimSetup(t)
	asks := func(name, class string) *v1.Pod {
		p := s.member(name, "", 0, 0)
		delete(p.Spec.Containers[0].Resources.Requests, names.ResourceNVIDIA)
		p.Spec.Containers[0].Resources.Requests[v1.ResourceName("deviceclass.resource.kubernetes.io/"+class)] = resource.MustParse("1")
		return p
	}
	p, other := asks("p", "gpu"), asks("other", "nic")
	s.add(p)
	s.add(other)
	s.Step()
	if !s.gate.Waits(p) || !s.gate.Waits(other) {
		t.Fatalf("the pod waits: %v, before its class is seen: %v", s.gate.Waits(p), s.gate.Waits(other))
	}
	want := `spec.containers[0].resources.requests[deviceclass.resource.kubernetes.io/gpu]: DeviceClass "gpu" is of GPUs, which are not given by this name: use nvidia.com/gpu or a ResourceClaim`
	if _, err := s.reader.RequestIn(p, s.reader.Profile(p.Spec.SchedulerName)); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	must(t, s.factory.Resource().V1().DeviceClasses().Informer().GetStore().Add(&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "nic"}}))
	s.Push(Event{about: about{kind: aboutClasses}})
	if s.Step(); s.gate.Waits(other) || !s.gate.Waits(p) {
		t.Errorf("GPUs wait: %v, other devices wait: %v", s.gate.Waits(p), s.gate.Waits(other))
	}
}

// TestPendUnwritten: a claim for extended resources, which has no name yet when it is
// allocated, holds its GPUs until its pod is gone or the claim that was written does.
func TestPendUnwritten(t *testing.T) {
	yes := true
	unwritten := func(p *v1.Pod) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "<extended-resources>", UID: "made-up-" + p.UID,
			Annotations:     map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: p.Name, UID: p.UID, Controller: &yes}}}}
		allocate(nil, 0b11)(c)
		return c
	}
	s := newClaimSetup(t)
	p := s.member("p", "", 0, 0)
	delete(p.Spec.Containers[0].Resources.Requests, names.ResourceNVIDIA)
	s.add(p)
	pend := func() {
		t.Helper()
		if refusal := s.HoldClaims([]*resourceapi.ResourceClaim{unwritten(p)}); refusal != nil || s.free() != 6 {
			t.Fatalf("%v, %d free", refusal, s.free())
		}
	}
	pend()
	s.UnholdClaims([]*resourceapi.ResourceClaim{unwritten(p)})
	if s.free() != 8 {
		t.Fatalf("%d free after it was taken back", s.free())
	}
	pend()
	s.claim("p-extended", 2, func(c *resourceapi.ResourceClaim) {
		allocate(p, 0b11)(c)
		c.Annotations, c.OwnerReferences = unwritten(p).Annotations, unwritten(p).OwnerReferences
	})
	s.edit("p", func(p *v1.Pod) {
		p.Spec.NodeName = "n0"
		p.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "p-extended"}
	})
	s.Step()
	if _, got := s.heldBy(p); got != 0b11 || s.free() != 6 {
		t.Fatalf("bound, it holds %b, %d free", got, s.free())
	}
	if _, err := s.Check(); err != nil {
		t.Error(err)
	}
	if m := s.driver.work.Member(model.HolderID(p.UID)); m == nil || m.Request.Count() != 2 {
		t.Errorf("its GPUs are charged to nobody: %+v", m)
	}
	s.deletePod("p")
	must(t, s.claimStore.Delete(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p-extended"}}))
	s.Push(ClaimEvent("default/p-extended"))
	if s.Step(); s.free() != 8 {
		t.Errorf("%d free when all is gone", s.free())
	}
	// A pod that goes before anything was written.
	p = s.member("q", "", 0, 0)
	s.add(p)
	s.Step()
	pend()
	s.deletePod("q")
	if s.Step(); s.free() != 8 || len(s.driver.claims.Holders()) != 0 {
		t.Errorf("%d free, own %v", s.free(), s.driver.claims.Holders())
	}
}

// TestTakeOver: a pod placed by Pend takes the devices over from its claim when it is seen
// bound; no moment is there when it contests its own devices, so it is not told to go.
func TestTakeOver(t *testing.T) {
	for _, claimFirst := range []bool{true, false} {
		s := newClaimSetup(t)
		p := s.user("p", "c")
		s.claim("c", 2, nil)
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "uid-c"}}
		allocate(nil, 0b11)(c)
		if refusal := s.HoldClaims([]*resourceapi.ResourceClaim{c}); refusal != nil {
			t.Fatal(refusal)
		}
		s.add(p)
		bind := func() { s.edit("p", func(p *v1.Pod) { p.Spec.NodeName = "n0" }) }
		if claimFirst {
			s.claim("c", 2, allocate(p, 0b11))
			s.Sync()
			bind()
		} else {
			bind()
			s.Sync()
			s.claim("c", 2, allocate(p, 0b11))
		}
		var victims []Victim
		s.do("test", func(_ *driver, now time.Time) { victims = s.driver.heal(now.Add(time.Hour)) })
		if _, got := s.heldBy(p); got != 0b11 || s.free() != 6 || len(victims) != 0 || s.driver.contests.Size() != 0 {
			t.Errorf("claim first %v: holds %b, %d free, %d told to go, %d contested", claimFirst, got, s.free(), len(victims), s.driver.contests.Size())
		}
	}
}

// TestManyShare: an event about one of many pods that share a claim has few of them looked
// at, whoever is first or bound; all are when the claim is allocated.
func TestManyShare(t *testing.T) {
	const many = 100
	s := newClaimSetup(t)
	looks := 0
	s.reader.Claims = func(p *v1.Pod) (*dra.Ask, error) { looks++; return s.driver.claims.Ask(p) }
	s.claim("c", 2, nil)
	var pods []*v1.Pod
	for i := range many {
		pods = append(pods, s.user(fmt.Sprintf("p%03d", i), "c"))
		s.add(pods[i])
	}
	few := func(what string, most int) {
		t.Helper()
		looks = 0
		if s.Sync(); looks > most {
			t.Errorf("%s: %d looks at pods", what, looks)
		}
	}
	few("all come", 5*many)
	set := s.placed(pods[0])
	few("nothing", 0)
	s.edit("p050", func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
	few("one of them is edited", 4)
	s.deletePod("p001")
	few("one of them goes", 4)
	s.claim("c", 2, allocate(pods[0], set))
	looks = 0
	if s.Sync(); looks < many/2 {
		t.Errorf("allocated: %d looks at pods", looks)
	}
	s.edit("p000", func(p *v1.Pod) { p.Spec.NodeName = "n0" })
	s.Sync()
	s.claim("c", 2, func(c *resourceapi.ResourceClaim) {
		allocate(pods[0], set)(c)
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "p002", UID: "uid-p002"})
	})
	few("another uses it", 4)
	// The first goes before the claim is allocated: the next one is told.
	s = newClaimSetup(t)
	s.claim("c", 2, nil)
	a, b := s.user("a", "c"), s.user("b", "c")
	s.add(a)
	s.add(b)
	s.placed(a)
	s.deletePod("a")
	s.placed(b)
}

// TestPublishedLate: claims and pods are seen before what their node publishes, as after a
// start of this process.
func TestPublishedLate(t *testing.T) {
	s := newClaimSetup(t)
	store := s.factory.Resource().V1().ResourceSlices().Informer().GetIndexer()
	published := store.List()[0].(*resourceapi.ResourceSlice)
	must(t, store.Delete(published))
	s.look(nil, "n0")
	p := s.user("p", "c")
	p.Spec.NodeName = "n0"
	s.claim("c", 2, allocate(p, 0b11))
	s.claim("alone", 1, allocate(nil, 0b100))
	s.add(p)
	s.Sync()
	must(t, store.Add(published))
	s.look(nil, "n0")
	s.Sync()
	if _, got := s.heldBy(p); got != 0b11 || s.free() != 5 {
		t.Errorf("holds %b, %d free", got, s.free())
	}
	if _, err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestHalfAllocated: a start that failed after a claim was allocated leaves the claim where
// it is; the pod goes there again, and is charged once.
func TestHalfAllocated(t *testing.T) {
	s := newClaimSetup(t)
	s.claim("c", 2, nil)
	p := s.user("p", "c")
	s.add(p)
	set := s.placed(p)
	r := s.release(p)
	s.claim("c", 2, allocate(p, set))
	s.Failed(p, r.Ticket, "the API server was away")
	s.Sync()
	if s.free() != 6 {
		t.Fatalf("%d free", s.free())
	}
	s.eventually("the pod has a place again", func() bool { s.after(time.Second); return s.gate.Released(p) })
	s.claim("c", 2, allocate(p, set)) // told once more: the pod has a place, but not the cards
	if s.free() != 6 {
		t.Fatalf("%d free", s.free())
	}
	if _, err := s.Check(); err != nil {
		t.Error(err)
	}
	s.release(p)
	s.edit("p", func(p *v1.Pod) { p.Spec.NodeName = "n0" })
	s.Step()
	if _, got := s.heldBy(p); got != set || s.free() != 6 {
		t.Errorf("holds %b, allocated %b, %d free", got, set, s.free())
	}
	if _, err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestNextAlternative: a pod whose first alternative is taken moves on to the next.
func TestNextAlternative(t *testing.T) {
	s := newClaimSetup(t)
	taker := s.member("taker", "", 0, 6)
	s.add(taker)
	if s.Step(); !s.gate.Released(taker) {
		t.Fatal("not placed")
	}
	s.claim("c", 0, func(c *resourceapi.ResourceClaim) {
		c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "most", DeviceClassName: "gpu", Count: 9, AllocationMode: resourceapi.DeviceAllocationModeExactCount},
			{Name: "many", DeviceClassName: "gpu", Count: 4, AllocationMode: resourceapi.DeviceAllocationModeExactCount},
			{Name: "few", DeviceClassName: "gpu", Count: 2, AllocationMode: resourceapi.DeviceAllocationModeExactCount},
		}}}
	})
	p := s.user("p", "c")
	s.add(p)
	s.eventually("the pod is known", func() bool { s.Step(); return s.driver.work.Member(model.HolderID(p.UID)) != nil })
	if s.gate.Released(p) || s.driver.work.Member("uid-p").Request.Count() != 4 {
		t.Fatalf("released %v, asks for %d", s.gate.Released(p), s.driver.work.Member("uid-p").Request.Count())
	}
	s.after(5 * time.Second)
	if _, set := s.heldBy(p); !s.gate.Released(p) || set.Count() != 2 {
		t.Errorf("released %v with %b", s.gate.Released(p), set)
	}
}
