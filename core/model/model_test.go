package model_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

func TestModelNames(t *testing.T) {
	tests := []struct {
		name, device, wish string
		want               bool
	}{
		{"short wish", "NVIDIA A100-SXM4-80GB", "A100", true},
		{"seed label", "NVIDIA A100-SXM4-80GB", "nvidia-tesla-a100", true},
		{"GFD label", "Tesla V100-SXM2-32GB", "Tesla-V100-SXM2-32GB", true},
		{"A10 is not A100", "NVIDIA A100-SXM4-80GB", "A10", false},
		{"A100 is not A10", "NVIDIA A10", "A100", false},
		{"memory narrows", "NVIDIA A100-SXM4-80GB", "A100 80GB", true},
		{"other memory", "NVIDIA A100-SXM4-40GB", "A100-80GB", false},
		{"form factor narrows", "NVIDIA H100 PCIe", "H100-SXM5", false},
		{"unnamed form factor", "NVIDIA H100 80GB HBM3", "H100", true},
		{"Ti is another card", "NVIDIA GeForce RTX 3080 Ti", "rtx-3080", false},
		{"brand does not matter", "NVIDIA GeForce RTX 3080", "nvidia-rtx-3080", true},
		{"L40S is not L40", "NVIDIA L40S", "L40", false},
		{"time-sliced product", "NVIDIA-A100-SXM4-80GB-SHARED", "A100", true},
		{"AMD", "AMD Instinct MI300X", "mi300x", true},
		{"empty device", "", "A100", false},
		{"brand only wish", "NVIDIA", "nvidia", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := model.ParseModel(tt.device).Is(model.ParseModel(tt.wish)); got != tt.want {
				t.Errorf("%q is %q: got %v, want %v", tt.device, tt.wish, got, tt.want)
			}
		})
	}
}

func TestCount(t *testing.T) {
	main, init, side := model.Main, model.Init, model.Sidecar
	tests := []struct {
		name       string
		containers []model.Container
		want       int
	}{
		{"sum of mains", []model.Container{{Phase: main, Count: 2}, {Phase: main, Count: 1}}, 3},
		{"init peak wins", []model.Container{{Phase: init, Count: 4}, {Phase: main, Count: 1}}, 4},
		{"inits do not add up", []model.Container{{Phase: init, Count: 2}, {Phase: init, Count: 2}, {Phase: main, Count: 1}}, 2},
		{"sidecar stays", []model.Container{{Phase: side, Count: 1}, {Phase: main, Count: 2}}, 3},
		{"sidecar beside a later init", []model.Container{{Phase: side, Count: 1}, {Phase: init, Count: 3}, {Phase: main, Count: 1}}, 4},
		{"sidecar after the init", []model.Container{{Phase: init, Count: 3}, {Phase: side, Count: 1}, {Phase: main, Count: 1}}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := model.Request{Vendor: model.NVIDIA, Containers: tt.containers}
			if got := r.Count(); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// TestShareKeepsApartWhatRunsTogether: each container gets its count, from the
// set, and containers that may run at once share no device.
func TestShareKeepsApartWhatRunsTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := coretest.Request(1)
		r.Containers = nil
		for range rapid.IntRange(0, 4).Draw(t, "inits") {
			phase := rapid.SampledFrom([]model.Phase{model.Init, model.Sidecar}).Draw(t, "phase")
			r.Containers = append(r.Containers, model.Container{Phase: phase, Count: rapid.IntRange(0, 3).Draw(t, "count")})
		}
		for range rapid.IntRange(1, 3).Draw(t, "mains") {
			r.Containers = append(r.Containers, model.Container{Count: rapid.IntRange(0, 3).Draw(t, "count")})
		}
		// Any set of the right size will do: every second slot.
		var set model.Mask
		for i := range r.Count() {
			set = set.With(2 * i)
		}
		got := r.Share(set)
		for i, c := range r.Containers {
			if got[i].Count() != c.Count || got[i]&^set != 0 {
				t.Fatalf("container %d asks for %d, got %b of %b", i, c.Count, got[i], set)
			}
			for j, o := range r.Containers[:i] {
				together := c.Phase != model.Init && o.Phase != model.Init || o.Phase == model.Sidecar
				if together && got[i]&got[j] != 0 {
					t.Fatalf("containers %d and %d run together and share %b", j, i, got[i]&got[j])
				}
			}
		}
	})
}

func TestNodeValidateNamesTheField(t *testing.T) {
	tests := []struct {
		name   string
		change func(*model.Node)
		want   string
	}{
		{"no id", func(n *model.Node) { n.ID = "" }, "id"},
		{"index twice", func(n *model.Node) { n.Devices[1].Index = 0 }, "devices[1].index"},
		{"uuid twice", func(n *model.Node) { n.Devices[1].UUID = n.Devices[0].UUID }, "devices[1].uuid"},
		{"vendor", func(n *model.Node) { n.Devices[0].Vendor = "acme" }, "devices[0].vendor"},
		{"memory", func(n *model.Node) { n.Devices[0].Memory = -1 }, "devices[0].memory"},
		{"link to nowhere", func(n *model.Node) { n.Links = []model.Link{{Between: []int{0, 9}}} }, "links[0].between"},
		{"link of one", func(n *model.Node) { n.Links = []model.Link{{Between: []int{0}}} }, "links[0].between"},
		{"attributes", func(n *model.Node) { n.Attributes = []model.Attribute{{Key: "b"}, {Key: "a"}} }, "attributes[1].key"},
		{"numa policy", func(n *model.Node) { n.NUMA = 9 }, "numa"},
		{"sellable", func(n *model.Node) { n.Sellable[model.AMD] = -1 }, "sellable[amd]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := coretest.Node("n").GPUs(2, "A100").Build()
			if err := n.Validate(); err != nil {
				t.Fatal(err)
			}
			tt.change(n)
			if err := n.Validate(); err == nil || !strings.HasPrefix(err.Error(), tt.want+":") {
				t.Errorf("got %v, want an error about %s", err, tt.want)
			}
		})
	}
}

func TestNominalMemory(t *testing.T) {
	for reported, want := range map[model.MiB]model.MiB{32510: 32 << 10, 81920: 80 << 10, 81559: 80 << 10, 143771: 141 << 10, 15360: 15 << 10} {
		if got := (model.Device{Memory: reported}).NominalMemory(); got != want {
			t.Errorf("%d MiB: got %d, want %d", reported, got, want)
		}
	}
}
