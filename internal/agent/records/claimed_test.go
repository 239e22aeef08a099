package records

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/api/record"
)

// claims are what the test's claims hold.
type claims []Claimed

func (c *claims) take(b *Book, t *testing.T, who string, devices ...record.Device) error {
	taken := Claimed{Namespace: "ns", Name: who, Devices: devices}
	return b.Take(t.Context(), taken, func() error {
		*c = append(*c, taken)
		return nil
	})
}

func slice(profile string, start int) record.Device {
	return record.Device{Index: 2, UUID: "GPU-m", MIG: profile, Start: start}
}

func TestTake(t *testing.T) {
	k := &fakeKubelet{}
	p := newFakePods(pod("a", want{name: "c", resource: gpu, count: 1}), pod("b", want{name: "c", resource: shared, count: 1}), pod("d", want{name: "c", resource: gpu, count: 1}))
	b := newTestBook(k, p, false)
	var held claims
	b.o.Claimed = func() []Claimed { return held }
	k.give("a", "c", gpu, "GPU-a")
	k.give("b", "c", shared, "GPU-b::0")
	if err := held.take(b, t, "claim x", gpuOf(0)); err == nil || !strings.Contains(err.Error(), "pod ns/a, container c holds it") || !strings.Contains(err.Error(), "claim x: device 0 (GPU-a)") {
		t.Errorf("a held card: %v", err)
	}
	if err := held.take(b, t, "claim x", gpuOf(1)); err == nil || !strings.Contains(err.Error(), "pod ns/b") {
		t.Errorf("a card with turns on it: %v", err)
	}
	// Another tenant is not told whose pods they are.
	if err := b.Take(t.Context(), Claimed{Namespace: "other", Name: "claim o", Devices: []record.Device{gpuOf(0)}}, nil); err == nil || !strings.Contains(err.Error(), "a pod of another namespace holds it") {
		t.Errorf("told to another namespace: %v", err)
	}
	if err := held.take(b, t, "claim x", slice("1g.18gb", 0)); err != nil {
		t.Error(err)
	}
	// The other door.
	for _, id := range []string{"GPU-m", "GPU-m::mig-1g.18gb@0"} {
		// It is not known which pod asks, so the holder is for the log alone.
		var excluded *Excluded
		if err := b.Reserve(t.Context(), "nvidia.com/x", []string{id}); !errors.As(err, &excluded) || excluded.By != "claim x" || strings.Contains(err.Error(), "claim x") {
			t.Errorf("%s: %v", id, err)
		}
	}
	k.admit("d")
	if err := b.Reserve(t.Context(), "nvidia.com/mig-1g.18gb", []string{"GPU-m::mig-1g.18gb@1"}); err != nil {
		t.Errorf("beside the claim's slice: %v", err)
	}
	k.give("d", "c", "nvidia.com/mig-1g.18gb", "GPU-m::mig-1g.18gb@1")
	if err := held.take(b, t, "claim y", slice("1g.18gb", 1)); err == nil || !strings.Contains(err.Error(), "1g.18gb at slice 1") {
		t.Errorf("%v", err)
	}
	// Kubelet is steered away from what claims hold.
	held = claims{{Name: "claim x", Devices: []record.Device{gpuOf(0)}}}
	k.end("a")
	k.end("b")
	if got := b.Preferred(t.Context(), gpu, []string{"GPU-a", "GPU-b"}, nil, 1); !slices.Equal(got, []string{"GPU-b"}) {
		t.Errorf("preferred %v", got)
	}
	// While it is not known what kubelet gave, nothing is given; what cannot be noted is not taken.
	k.away = true
	if err := held.take(b, t, "claim z", gpuOf(1)); err == nil || len(held) != 1 {
		t.Errorf("without kubelet: %v", err)
	}
	k.away = false
	if err := b.Take(t.Context(), Claimed{Name: "claim z", Devices: []record.Device{gpuOf(1)}}, func() error { return errors.New("disk full") }); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("%v", err)
	}
}

// TestBothDoors lets pods and claims come and go at random: no card, and no memory slice of
// one, is ever held twice.
func TestBothDoors(t *testing.T) {
	k := &fakeKubelet{}
	p := newFakePods()
	b := newTestBook(k, p, false)
	var held claims
	b.o.Claimed = func() []Claimed { return held }
	inv := b.o.Inventory()
	given := map[string][]record.Device{} // by pod
	ids := []string{"GPU-a", "GPU-b", "GPU-m", "GPU-m::mig-1g.18gb@0", "GPU-m::mig-1g.18gb@1", "GPU-m::mig-1g.18gb@2", "MIG-i"}
	devices := []record.Device{gpuOf(0), gpuOf(1), gpuOf(2), slice("1g.18gb", 0), slice("1g.18gb", 1), slice("3g.71gb", 4)}
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for step := range 400 {
		switch random.IntN(4) {
		case 0:
			name, id := fmt.Sprintf("p%d", step), ids[random.IntN(len(ids))]
			p.set(pod(name, want{name: "c", resource: gpu, count: 1}))
			k.admit(name)
			if err := b.Reserve(t.Context(), gpu, []string{id}); err != nil {
				refused++
				k.end(name)
				p.remove(name)
				continue
			}
			k.give(name, "c", gpu, id)
			d, _, err := ReadID(gpu, id, inv)
			if err != nil {
				t.Fatal(err)
			}
			given[name] = []record.Device{d}
		case 1:
			if err := held.take(b, t, fmt.Sprintf("claim %d", step), devices[random.IntN(len(devices))]); err != nil {
				refused++
			}
			// Claims among each other are the driver's business.
			held = slices.DeleteFunc(held, func(c Claimed) bool {
				return c.Name == fmt.Sprintf("claim %d", step) && slices.ContainsFunc(held, func(o Claimed) bool {
					return o.Name != c.Name && useOf(o.Devices[0], inv).excludes(useOf(c.Devices[0], inv))
				})
			})
		case 2:
			for name := range given {
				k.end(name)
				p.remove(name)
				delete(given, name)
				break
			}
		case 3:
			if len(held) > 0 {
				held = slices.Delete(held, 0, 1)
			}
		}
		taken := map[string]string{} // card and memory slice to holder
		note := func(who string, d record.Device) {
			u := useOf(d, inv)
			from, to := 0, 8
			if u.slice {
				from, to = u.start, u.end
			}
			for i := from; i < to; i++ {
				at := fmt.Sprintf("%s/%d", u.gpu, i)
				if other := taken[at]; other != "" {
					t.Fatalf("step %d: %s and %s both hold %s", step, who, other, at)
				}
				taken[at] = who
			}
		}
		for name, ds := range given {
			note(name, ds[0])
		}
		for _, c := range held {
			note(c.Name, c.Devices[0])
		}
	}
	if refused < 50 {
		t.Errorf("only %d were refused: the doors were not tried", refused)
	}
}
