package dra

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// share allocates a share of a device to a claim, by amounts; empty: none is said.
func (n *node) share(name, device, memory, cores string) {
	c := n.claim(name, device)
	r := &c.Status.Allocation.Devices.Results[0]
	id := types.UID("share-" + name)
	r.ShareID, r.ConsumedCapacity = &id, map[resourceapi.QualifiedName]resource.Quantity{"shares": resource.MustParse("1")}
	if memory != "" {
		r.ConsumedCapacity[capacityMemory] = resource.MustParse(memory)
	}
	if cores != "" {
		r.ConsumedCapacity[capacityCores] = resource.MustParse(cores)
	}
}

// TestShares: claims have parts of a GPU by amount, as much as there is; all of its memory is
// the whole GPU; and a claim for the whole keeps out shares, and the other way round.
func TestShares(t *testing.T) {
	n := newNode(t)
	n.parts = Parts(inventory(2, 1), Cuts{OnDemand: true, Shares: 3})
	n.share("a", "gpu-0", "40Gi", "25")
	n.share("b", "gpu-0", "40Gi", "")
	for _, name := range []string{"a", "b"} {
		got, err := n.prepare(name)
		if err != nil || len(got) != 1 || got[0].Share != "share-"+name {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
	}
	milli := 0
	for _, a := range n.made {
		if a.Devices[0].MemoryMiB != 40<<10 {
			t.Errorf("made %+v", a)
		}
		milli += a.Devices[0].ComputeMilli
	}
	if len(n.made) != 2 || milli != 250 {
		t.Errorf("made %+v", n.made)
	}
	refused := func(name, text string) {
		t.Helper()
		if _, err := n.prepare(name); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	n.share("c", "gpu-0", "61Gi", "")
	refused("c", "device gpu-0 has 143771 MiB, and the claims on it have 144384 with this one's 62464")
	n.claim("whole", "gpu-0")
	refused("whole", "prepared for ResourceClaim ns/")
	n.claim("slice", "gpu-0-mig-1g18gb-19-4")
	refused("slice", "prepared for ResourceClaim ns/")
	n.restart() // what the journal says
	n.share("d", "gpu-0", "61Gi", "")
	refused("d", "143771 MiB")
	if err := n.claims.Unprepare(t.Context(), "uid-a"); err != nil {
		t.Fatal(err)
	}
	if _, err := n.prepare("d"); err != nil {
		t.Error(err)
	}
	n.share("all", "gpu-1", "143771Mi", "")
	if _, err := n.prepare("all"); err != nil {
		t.Fatal(err)
	}
	for _, a := range n.made {
		if g := a.Devices[0]; g.UUID == "GPU-1" && (g.MemoryMiB != 0 || g.ComputeMilli != 0) {
			t.Errorf("all of the memory is a share: %+v", g)
		}
	}
	n.share("beside", "gpu-1", "1Gi", "")
	refused("beside", "prepared for ResourceClaim ns/all")
	for name, c := range map[string][3]string{
		"no-memory":   {"", "", "results[0].consumedCapacity[memory]: must be more than 0"},
		"much-memory": {"200Gi", "", "results[0].consumedCapacity[memory]: 200Gi is more than the GPU has, 143771 MiB"},
		"many-cores":  {"1Gi", "101", "results[0].consumedCapacity[cores]: must be from 0 to 100, is 101"},
	} {
		n.share(name, "gpu-0", c[0], c[1])
		refused(name, c[2])
	}
	n.parts = Parts(inventory(2, 1), Cuts{OnDemand: true})
	n.share("off", "gpu-1", "1Gi", "")
	refused("off", "results[0].shareID: GPUs of this node are not shared between claims (--shares-per-gpu)")
}

// TestShareSlices: a GPU that may be shared says so, with what a claim takes that says
// nothing; MIG instances are never shared.
func TestShareSlices(t *testing.T) {
	for _, shares := range []int{0, 3} {
		state := State{Inventory: inventory(2, 1), Cuts: Cuts{OnDemand: true, Shares: shares}, Health: well}
		whole := 0
		for _, s := range state.Slices() {
			for _, d := range s.Devices {
				isShared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
				if want := shares > 0 && *d.Attributes["type"].StringValue == "gpu"; isShared != want {
					t.Errorf("%d shares: %s: %v", shares, d.Name, isShared)
				}
				if !isShared {
					if len(d.Capacity) != 2 || d.Capacity["multiprocessors"].RequestPolicy != nil {
						t.Errorf("%d shares: %s: %+v", shares, d.Name, d.Capacity)
					}
					continue
				}
				whole++
				memory, cores, number, sms := d.Capacity["memory"], d.Capacity["cores"], d.Capacity["shares"], d.Capacity["multiprocessors"]
				if memory.RequestPolicy != nil || cores.Value.Value() != 100 || !cores.RequestPolicy.Default.IsZero() ||
					number.Value.Value() != 3 || number.RequestPolicy.Default.Value() != 1 || !sms.RequestPolicy.Default.IsZero() {
					t.Errorf("%s: %+v", d.Name, d.Capacity)
				}
			}
		}
		if shares > 0 && whole != 2 {
			t.Errorf("%d GPUs are shared", whole)
		}
	}
}
