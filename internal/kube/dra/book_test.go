package dra

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

const gpuClass = `device.driver == "gpu.tangram.dev" && device.attributes["gpu.tangram.dev"].type == "gpu"`

// bookWith is a Book of some objects, with all selectors evaluated that are asked for.
func bookWith(t *testing.T, objects ...runtime.Object) *Book {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0)
	b, err := New(factory, Changes{Node: func(string) {}, Matched: func(string) {}, Evaluated: func(string) {}, Claim: func(string) {}, Classes: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), b.Synced()...) {
		t.Fatal("not synced")
	}
	return b
}

// asked is what a pod asks for, once its selectors are known.
func asked(t *testing.T, b *Book, p *v1.Pod) (*Ask, error) {
	t.Helper()
	b.Set(p)
	if _, err := b.Ask(p); err != nil && !IsWait(err) {
		return nil, err
	}
	for b.Work(context.Background()) {
	}
	return b.Ask(p)
}

func class(name, expression string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}}}
}

func text(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }

// sliceOf is a node with so many GPUs of 80 GiB.
func sliceOf(node string, gpus int, change ...func(*resourceapi.ResourceSlice)) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.tangram.dev", NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
	}}
	for i := range gpus {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"type": text("gpu"), "uuid": text(fmt.Sprintf("%s-%d", node, i)), "productName": text("NVIDIA A100-SXM4-80GB"), "resource.kubernetes.io/pcieRoot": text(fmt.Sprint(i / 2)),
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
		})
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func claimOf(name string, r ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a", UID: types.UID("uid-" + name)}, Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: r}}}
}

func exactly(class string, count int64, selectors ...string) resourceapi.DeviceRequest {
	e := &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
	for _, s := range selectors {
		e.Selectors = append(e.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: s}})
	}
	return resourceapi.DeviceRequest{Name: "r", Exactly: e}
}

func podWith(name string, claims ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a", UID: types.UID("uid-" + name)}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}}}
	for i := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: fmt.Sprint(i), ResourceClaimName: &claims[i]})
	}
	return p
}

func nodeOf(name string) *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// TestWholeGPUs: a claim for GPUs of a class is that many devices, on nodes that have them.
func TestWholeGPUs(t *testing.T) {
	b := bookWith(t, class("gpu", gpuClass), sliceOf("n1", 4), sliceOf("n2", 1), claimOf("two", exactly("gpu", 2)))
	p := podWith("p", "two")
	if !b.Concerns(p) {
		t.Error("the engine does not look at it")
	}
	a, err := asked(t, b, p)
	if err != nil {
		t.Fatal(err)
	}
	if a == nil || a.By == nil || len(a.By.Containers) != 1 || a.By.Containers[0].Count != 2 || a.Loose || a.By.UseUUIDs != nil {
		t.Fatalf("asks for %+v", a)
	}
	if r := a.May(nodeOf("n1")); r != nil {
		t.Errorf("n1: %v", r)
	}
	if r := a.May(nodeOf("n2")); r == nil || r.Best != 1 || r.Need != 2 {
		t.Errorf("n2: %v", r)
	}
	if r := a.May(nodeOf("n3")); r == nil {
		t.Error("n3 publishes nothing")
	}
}

// TestPartOfANode: where only some cards of a node match, the request names them.
func TestPartOfANode(t *testing.T) {
	b := bookWith(t, class("gpu", gpuClass), sliceOf("n1", 4), claimOf("c", exactly("gpu", 1, `device.attributes["gpu.tangram.dev"].uuid.endsWith("-3")`)))
	a, err := asked(t, b, podWith("p", "c"))
	if err != nil || len(a.By.UseUUIDs) != 1 || a.By.UseUUIDs[0] != "n1-3" || a.Loose {
		t.Fatalf("asks for %+v, %v", a, err)
	}
}

// TestLeftToTheAllocator: constraints, mode All and different selectors leave the choice of
// devices to the allocator; other devices and admin access ask for nothing.
func TestLeftToTheAllocator(t *testing.T) {
	root := resourceapi.FullyQualifiedName("resource.kubernetes.io/pcieRoot")
	near := claimOf("near", exactly("gpu", 2))
	near.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &root}}
	far := claimOf("far", exactly("gpu", 3))
	far.Spec.Devices.Constraints = near.Spec.Devices.Constraints
	all := claimOf("all", exactly("gpu", 0))
	all.Spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	admin := claimOf("admin", exactly("gpu", 1))
	yes := true
	admin.Spec.Devices.Requests[0].Exactly.AdminAccess = &yes
	b := bookWith(t, class("gpu", gpuClass), class("nic", `device.driver == "nic"`), sliceOf("n1", 4), near, far, all, admin,
		claimOf("nic", exactly("nic", 1)), claimOf("one", exactly("gpu", 1, `device.attributes["gpu.tangram.dev"].uuid.endsWith("-3")`)))
	for _, c := range []struct {
		claims []string
		count  int
	}{{[]string{"near"}, 2}, {[]string{"all"}, 4}, {[]string{"near", "one"}, 3}} {
		a, err := asked(t, b, podWith("p", c.claims...))
		for IsWait(err) {
			a, err = asked(t, b, podWith("p", c.claims...))
		}
		if err != nil || !a.Loose {
			t.Fatalf("%v: %+v, %v", c.claims, a, err)
		}
		sum := 0
		for _, x := range a.By.Containers {
			sum += x.Count
		}
		if sum != c.count || a.May(nodeOf("n1")) != nil {
			t.Errorf("%v: %d GPUs, %v", c.claims, sum, a.May(nodeOf("n1")))
		}
	}
	if a, err := asked(t, b, podWith("p", "far")); err != nil || a.May(nodeOf("n1")) == nil {
		t.Errorf("three cards behind a root of two: %+v, %v", a, err)
	}
	for _, name := range []string{"nic", "admin"} {
		p := podWith("p", name)
		if a, err := asked(t, b, p); a != nil || err != nil || b.Concerns(p) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// TestWaits: what is missing is named, and passes without an edit of the pod.
func TestWaits(t *testing.T) {
	b := bookWith(t, class("gpu", gpuClass), sliceOf("n1", 1), claimOf("c", exactly("gpu", 1)), claimOf("d", exactly("nowhere", 1)))
	template := podWith("t")
	name := "from"
	template.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: &name}}
	for _, c := range []struct {
		pod  *v1.Pod
		want string
	}{
		{template, `spec.resourceClaims[0]: no ResourceClaim has been made yet from ResourceClaimTemplate "from"`},
		{podWith("p", "missing"), `spec.resourceClaims[0]: ResourceClaim "missing" does not exist`},
		{podWith("p", "d"), `spec.resourceClaims[0]: ResourceClaim "d": request "r": DeviceClass "nowhere" does not exist`},
	} {
		if _, err := asked(t, b, c.pod); !IsWait(err) || err.Error() != c.want || !b.Concerns(c.pod) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	first, second := podWith("a", "c"), podWith("b", "c")
	b.Set(first)
	if _, err := asked(t, b, second); !IsWait(err) {
		t.Errorf("the second of two that share a claim: %v", err)
	}
	if a, err := asked(t, b, first); err != nil || a.By == nil {
		t.Errorf("the first of two that share a claim: %+v, %v", a, err)
	}
	bad := claimOf("bad", exactly("gpu", 1, `device.attributes["gpu.tangram.dev"].nothing == "x"`))
	b = bookWith(t, class("gpu", gpuClass), sliceOf("n1", 1), bad)
	if _, err := asked(t, b, podWith("p", "bad")); err == nil || IsWait(err) {
		t.Errorf("an expression that fails: %v", err)
	}
}

// TestNamespacesTakeTurns: one namespace's many expressions do not keep another's waiting.
func TestNamespacesTakeTurns(t *testing.T) {
	b := bookWith(t, sliceOf("n1", 1))
	for i := range 100 {
		b.matcher.Want("hostile", []string{fmt.Sprintf("%d == 0", i)})
	}
	s := b.matcher.Want("other", []string{"true"})
	for range 4 {
		b.Work(context.Background())
	}
	if known, err := s.Known(); !known || err != nil || len(s.On("n1").Whole) != 1 {
		t.Errorf("known %v, %v after four turns", known, err)
	}
}

// TestTurnsAreShort: a turn ends with its time, not with a set: a set that takes long on many
// nodes, or that all nodes' changes are to be looked at for, keeps no other namespace
// waiting. Classes alone come first.
func TestTurnsAreShort(t *testing.T) {
	var nodes []runtime.Object
	for i := range 20 {
		nodes = append(nodes, sliceOf(fmt.Sprintf("n%d", i), 1))
	}
	b := bookWith(t, nodes...)
	m := b.matcher
	m.turn = 0 // one node
	work := func(n int) {
		for range n {
			b.Work(context.Background())
		}
	}
	hostile := m.Want("hostile", []string{"1 == 1"})
	for i := range 10 {
		m.Want("hostile", []string{fmt.Sprintf("%d == 0", i)})
	}
	other, class := m.Want("other", []string{"true"}), m.Want("", []string{"true", "true"})
	if work(20); !isKnown(class) {
		t.Error("a class waits for tenants")
	}
	if work(40); !isKnown(other) || !isKnown(hostile) {
		t.Errorf("other %v, hostile %v after their turns", isKnown(other), isKnown(hostile))
	}
	for i := range 20 { // all of the hostile sets are to be looked at again
		m.Stale(fmt.Sprintf("n%d", i))
	}
	late := m.Want("late", []string{"true", "1 == 1"})
	if work(20 + 3*21); !isKnown(late) {
		t.Error("changes of nodes keep a namespace waiting")
	}
	for b.Work(context.Background()) {
	}
	if len(m.changes)+len(m.waiting)+len(m.turns) != 0 || len(late.byNode) != 20 {
		t.Errorf("%d changes, %d waiting, %d nodes", len(m.changes), len(m.waiting), len(late.byNode))
	}
}

func isKnown(s *Set) bool { known, _ := s.Known(); return known }

// TestChangedNode: what changes on a node is told, once, and what does not is not.
func TestChangedNode(t *testing.T) {
	b := bookWith(t, sliceOf("n1", 2))
	m := b.matcher
	var told []string
	m.changed = func(node string) { told = append(told, node) }
	all, none := m.Want("a", []string{"true"}), m.Want("a", []string{"false"})
	work := func() {
		for b.Work(context.Background()) {
		}
	}
	work()
	m.Stale("n1")
	if work(); len(told) != 0 || !isKnown(none) {
		t.Errorf("told of %v", told)
	}
	if err := b.slices.Update(sliceOf("n1", 3)); err != nil {
		t.Fatal(err)
	}
	m.Stale("n1")
	if work(); len(told) != 1 || len(all.On("n1").Whole) != 3 {
		t.Errorf("told of %v, matches %+v", told, all.On("n1"))
	}
}

// TestHolds: an allocated claim holds its devices, for the pod that it is reserved for or
// for itself.
func TestHolds(t *testing.T) {
	c := claimOf("c", exactly("gpu", 2))
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Driver: "gpu.tangram.dev", Pool: "n1", Device: "gpu-0"}, {Driver: "gpu.tangram.dev", Pool: "n1", Device: "gpu-2"}, {Driver: "nic", Pool: "n1", Device: "x"},
	}}}
	p := podWith("p", "c")
	p.Spec.NodeName = "n1"
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: p.UID}}
	b := bookWith(t, class("gpu", gpuClass), sliceOf("n1", 4), c)
	if node, claim, ok := b.OwnHold(c, never); !ok || node != "n1" || claim.Count != 2 || claim.Devices[1].UUID != "n1-2" || claim.Holder != "uid-c/claim" {
		t.Errorf("without its pod: %v %+v %v", node, claim, ok)
	}
	b = bookWith(t, class("gpu", gpuClass), sliceOf("n1", 4), c, p)
	for len(b.OwnHolds(never)) > 0 { // until the pod's informer has it
	}
	claims, all := b.AddTo(p, []ledger.Claim{{Holder: model.HolderID(p.UID)}})
	if !all || len(claims) != 1 || claims[0].Count != 2 || claims[0].Vendor != model.NVIDIA || len(claims[0].Devices) != 2 {
		t.Errorf("with its pod: %+v", claims)
	}
	if a, err := b.Ask(p); err != nil || a.By.Containers[0].Count != 2 {
		t.Errorf("the bound pod: %+v, %v", a, err)
	}
}

// cutH200 is a node with one H200 as gpu-agent publishes it with --dra while MIG is off: whole,
// and every place for an instance (driver 580, read from the hardware).
func cutH200(node string) *resourceapi.ResourceSlice {
	return sliceOf(node, 1, func(s *resourceapi.ResourceSlice) {
		whole := &s.Spec.Devices[0]
		whole.Attributes["productName"], whole.Attributes["uuid"] = text("NVIDIA H200"), text("GPU-h200")
		whole.Capacity["memory"] = resourceapi.DeviceCapacity{Value: resource.MustParse("143771Mi")}
		takes := func(from, size int) []resourceapi.DeviceCounterConsumption {
			c := resourceapi.DeviceCounterConsumption{CounterSet: "gpu-0-counter-set", Counters: map[string]resourceapi.Counter{}}
			for i := from; i < from+size; i++ {
				c.Counters[fmt.Sprintf("memory-slice-%d", i)] = resourceapi.Counter{Value: resource.MustParse("1")}
			}
			return []resourceapi.DeviceCounterConsumption{c}
		}
		whole.ConsumesCounters = takes(0, 8)
		for _, p := range []struct {
			name, memory string
			id, size     int
			starts       []int
		}{
			{"7g.141gb", "140Gi", 0, 8, []int{0}}, {"4g.71gb", "71424Mi", 5, 4, []int{0}}, {"3g.71gb", "71424Mi", 9, 4, []int{0, 4}},
			{"2g.35gb", "33280Mi", 14, 2, []int{0, 2, 4}}, {"1g.35gb", "33280Mi", 15, 2, []int{0, 2, 4, 6}},
			{"1g.18gb", "16Gi", 19, 1, []int{0, 1, 2, 3, 4, 5, 6}}, {"1g.18gb+me", "16Gi", 20, 1, []int{0, 1, 2, 3, 4, 5, 6}},
		} {
			for _, start := range p.starts {
				s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
					Name:             fmt.Sprintf("gpu-0-mig-%d-%d", p.id, start),
					Attributes:       map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"type": text("mig"), "parentUUID": text("GPU-h200"), "productName": text("NVIDIA H200"), "profile": text(p.name)},
					Capacity:         map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(p.memory)}},
					ConsumesCounters: takes(start, p.size),
				})
			}
		}
	})
}

// TestMIGAfterWhole: of an H200 every profile has room by a claim; none has while a claim for
// the whole GPU is allocated, also when its pod is gone and the claim is being deleted, for
// its device may still be prepared; and all have room again once it is deallocated.
func TestMIGAfterWhole(t *testing.T) {
	const migClass = `device.driver == "gpu.tangram.dev" && device.attributes["gpu.tangram.dev"].type == "mig"`
	whole := claimOf("whole", exactly("gpu", 1))
	whole.DeletionTimestamp, whole.Finalizers = &metav1.Time{}, []string{resourceapi.Finalizer}
	whole.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "gpu.tangram.dev", Pool: "n1", Device: "gpu-0"}}}}
	deallocated := whole.DeepCopy()
	deallocated.Status = resourceapi.ResourceClaimStatus{}
	for i, profile := range []string{"7g.141gb", "4g.71gb", "3g.71gb", "2g.35gb", "1g.35gb", "1g.18gb", "1g.18gb+me"} {
		for held, claim := range map[bool]*resourceapi.ResourceClaim{true: whole, false: deallocated} {
			name := fmt.Sprintf("cut-%d", i)
			b := bookWith(t, class("gpu", gpuClass), class("mig", migClass), cutH200("n1"), claim,
				claimOf(name, exactly("mig", 1, fmt.Sprintf(`device.attributes["gpu.tangram.dev"].profile == %q`, profile))))
			a, err := asked(t, b, podWith("p", name))
			if err != nil {
				t.Fatal(err)
			}
			part := a.By.Containers[0].Part
			if want := (model.Part{Kind: model.Slice, Profile: profile}); part != want {
				t.Fatalf("asks for %+v, want %+v", part, want)
			}
			if r := a.May(nodeOf("n1")); r != nil {
				t.Errorf("%s: %+v", profile, r)
			}
			inventory, _ := dialect.Describe(nodeOf("n1"), dialect.Facts{})
			if _, err := dialect.AddPublished(inventory, nodeOf("n1"), b.Published("n1"), nil); err != nil {
				t.Fatal(err)
			}
			l := ledger.New()
			if err := l.SetNode(inventory); err != nil {
				t.Fatal(err)
			}
			for node, claims := range b.OwnHolds(never) {
				for _, c := range claims {
					l.Put(model.NodeID(node), c)
				}
			}
			v, ok := l.View("n1")
			if !ok || len(v.Node.Devices) != 1 {
				t.Fatalf("the node has %+v", v.Node)
			}
			if _, fits := v.Fits(0, v.Usage(0), part); fits == held {
				t.Errorf("%s fits: %v, while the whole GPU is held: %v", profile, fits, held)
			}
		}
	}
}

// TestMissing: of a GPU that was never published it is said where it is likely to be; one
// that was stays where it was while its driver publishes nothing, and no other node is
// searched for it.
func TestMissing(t *testing.T) {
	b := bookWith(t, sliceOf("n1", 1), sliceOf("n2", 1, func(s *resourceapi.ResourceSlice) { s.Spec.Pool.Name = "odd" }))
	a := &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Driver: "gpu.tangram.dev", Pool: "n1", Device: "gpu-0"}, {Driver: "gpu.tangram.dev", Pool: "n1", Device: "gpu-7"},
	}}}
	if h := b.Holds(a); h.Node != "n1" || len(h.Whole) != 1 || h.Missing != "n1" {
		t.Errorf("%+v", h)
	}
	if h := b.Holds(a, "n9"); h.Missing != "n9" {
		t.Errorf("%+v", h)
	}
	odd := &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "gpu.tangram.dev", Pool: "odd", Device: "gpu-0"}}}}
	for _, when := range []string{"published", "not any more"} {
		if h := b.Holds(odd); h.Node != "n2" || len(h.Whole) != 1 || h.Missing != "" {
			t.Errorf("%s: %+v", when, h)
		}
		if err := b.slices.Delete(sliceOf("n2", 1)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShareAmounts: memory without which a share is all of a card, and cores in hundredths;
// all of the memory is the whole card.
func TestShareAmounts(t *testing.T) {
	for name, c := range map[string]struct {
		amounts map[string]string
		want    model.Part
	}{
		"nothing":          {nil, model.Part{Kind: model.Share, MemoryMilli: model.FullMilli}},
		"cores alone":      {map[string]string{"cores": "20"}, model.Part{Kind: model.Share, MemoryMilli: model.FullMilli}},
		"memory":           {map[string]string{"memory": "1Gi"}, model.Part{Kind: model.Share, Memory: 1024}},
		"memory and cores": {map[string]string{"memory": "1500k", "cores": "25"}, model.Part{Kind: model.Share, Memory: 2, Milli: 250}},
		"no cores":         {map[string]string{"memory": "1Gi", "cores": "0"}, model.Part{Kind: model.Share, Memory: 1024}},
		"too many cores":   {map[string]string{"memory": "1Gi", "cores": "900"}, model.Part{Kind: model.Share, Memory: 1024, Milli: model.FullMilli}},
	} {
		asks, has := resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{}}, resourceapi.DeviceRequestAllocationResult{Driver: "gpu.tangram.dev", ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{}}
		for key, amount := range c.amounts {
			asks.Requests[resourceapi.QualifiedName(key)] = resource.MustParse(amount)
			has.ConsumedCapacity[resourceapi.QualifiedName("gpu.tangram.dev/"+key)] = resource.MustParse(amount)
		}
		if got := shareAsked(&option{capacity: &asks}); got != c.want {
			t.Errorf("%s: asked %+v, want %+v", name, got, c.want)
		}
		if got := shareOf(&has); got != c.want {
			t.Errorf("%s: has %+v, want %+v", name, got, c.want)
		}
		if err := shareOf(&has).Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
