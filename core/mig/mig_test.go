package mig

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/model"
)

func a100(t testing.TB) *Geometry {
	g := Lookup(model.ParseModel("NVIDIA A100-SXM4-40GB"), 40960)
	if g == nil {
		t.Fatal("no A100-40GB in the catalog")
	}
	return g
}

// plain is a geometry with the five profiles NVIDIA's guide counts with.
func plain(t testing.TB) *Geometry {
	var ps []Profile
	for _, p := range a100(t).Profiles() {
		if !p.Media && !(p.Compute == 1 && p.Size == 2) {
			ps = append(ps, p)
		}
	}
	g, err := New(8, ps)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// instance is a placed profile.
type instance struct{ profile, start int }

// states enumerates every legal set of instances.
func states(g *Geometry) map[string][]instance {
	out := map[string][]instance{}
	var walk func(s State, placed []instance)
	walk = func(s State, placed []instance) {
		sorted := slices.Clone(placed)
		slices.SortFunc(sorted, func(a, b instance) int { return a.start - b.start })
		key := fmt.Sprint(sorted)
		if _, seen := out[key]; seen {
			return
		}
		out[key] = sorted
		for p := range g.Profiles() {
			for _, start := range g.Profiles()[p].Starts {
				if next, ok := g.Take(s, p, start); ok {
					walk(next, append(slices.Clone(placed), instance{p, start}))
				}
			}
		}
	}
	walk(State{}, nil)
	return out
}

func stateOf(g *Geometry, placed []instance) (s State) {
	for _, i := range placed {
		s, _ = g.Take(s, i.profile, i.start)
	}
	return s
}

// TestCounts are the known numbers: NVIDIA publishes exactly 19 maximal A100
// configurations; the others come from enumerating the rule by hand elsewhere.
func TestCounts(t *testing.T) {
	a30 := Lookup(model.ParseModel("NVIDIA A30"), 24576)
	var a30plain []Profile
	for _, p := range a30.Profiles() {
		if !p.Media {
			a30plain = append(a30plain, p)
		}
	}
	a30g, err := New(4, a30plain)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		g              *Geometry
		legal, maximal int
	}{
		"A100, five profiles": {plain(t), 298, 19},
		"A100, all profiles":  {a100(t), 2319, 0},
		"A30, plain profiles": {a30g, 26, 5},
	} {
		all := states(tt.g)
		maximal := 0
		for _, placed := range all {
			s, full := stateOf(tt.g, placed), true
			for p := range tt.g.Profiles() {
				full = full && tt.g.Place(s, p) < 0
			}
			if full {
				maximal++
			}
		}
		if len(all) != tt.legal || tt.maximal > 0 && maximal != tt.maximal {
			t.Errorf("%s: %d legal, %d maximal states, want %d and %d", name, len(all), maximal, tt.legal, tt.maximal)
		}
	}
}

// TestPlaceKeepsLargeProfilesPossible is the order an expert would choose on an
// empty GPU, one instance after another.
func TestPlaceKeepsLargeProfilesPossible(t *testing.T) {
	tests := []struct {
		profile string
		want    []int
	}{
		{"1g.5gb", []int{6, 5, 4, 3, 2, 1, 0, -1}},
		{"2g.10gb", []int{4, 2, 0, -1}},
		{"3g.20gb", []int{4, 0, -1}},
		{"4g.20gb", []int{0, -1}},
		{"1g.10gb", []int{6, 4, 2, 0, -1}},
		{"7g.40gb", []int{0, -1}},
		{"1g.5gb+me", []int{6, -1}},
	}
	for _, tt := range tests {
		t.Run(tt.profile, func(t *testing.T) {
			g := a100(t)
			p := g.Find(tt.profile)
			if p < 0 {
				t.Fatal("no such profile")
			}
			var s State
			for i, want := range tt.want {
				got := g.Place(s, p)
				if got != want {
					t.Fatalf("instance %d: placed at %d, want %d", i, got, want)
				}
				if got >= 0 {
					s, _ = g.Take(s, p, got)
				}
			}
		})
	}
	// After a 1g at the top a 4g still fits; and 4g + 3g use the whole GPU.
	g := a100(t)
	s, _ := g.Take(State{}, g.Find("1g.5gb"), g.Place(State{}, g.Find("1g.5gb")))
	if g.Place(s, g.Find("4g.20gb")) != 0 {
		t.Error("a 1g took the 4g's place")
	}
}

// mostLeft is how many instances of a profile still fit, by the tables.
func mostLeft(g *Geometry, s State, profile int) int {
	if g.profiles[profile].Media && s.Media {
		return 0
	}
	return int(g.most[profile][s.Used])
}

// TestEveryReachableStateIsLegal: after any sequence of Take and Release, instances
// never overlap, starts are allowed, at most one has +me, and Release undoes Take.
func TestEveryReachableStateIsLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(catalog).Draw(t, "model")
		g, err := New(e.slices, e.profiles())
		if err != nil {
			t.Fatal(err)
		}
		var s State
		var placed []instance
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(placed) > 0 && rapid.Bool().Draw(t, "leave") {
				i := rapid.IntRange(0, len(placed)-1).Draw(t, "holder")
				s = g.Release(s, placed[i].profile, placed[i].start)
				placed = slices.Delete(placed, i, i+1)
			} else {
				p := rapid.IntRange(0, len(g.Profiles())-1).Draw(t, "profile")
				start := g.Place(s, p)
				if (start >= 0) != (mostLeft(g, s, p) > 0) {
					t.Fatalf("place says %d, most says %d", start, mostLeft(g, s, p))
				}
				if start < 0 {
					continue
				}
				next, ok := g.Take(s, p, start)
				if !ok {
					t.Fatalf("proposed an illegal place %d", start)
				}
				if g.Release(next, p, start) != s {
					t.Fatal("release does not undo take")
				}
				s, placed = next, append(placed, instance{p, start})
			}
			covered, media := Slices(0), 0
			for _, i := range placed {
				prof := g.Profiles()[i.profile]
				iv := interval(&prof, i.start)
				if covered&iv != 0 || !slices.Contains(prof.Starts, i.start) {
					t.Fatalf("illegal: %v", placed)
				}
				covered |= iv
				if prof.Media {
					media++
				}
			}
			if covered != s.Used || media > 1 || (media == 1) != s.Media {
				t.Fatalf("state %+v does not match %v", s, placed)
			}
		}
	})
}

func TestCatalog(t *testing.T) {
	for _, e := range catalog {
		if _, err := New(e.slices, e.profiles()); err != nil {
			t.Errorf("%s: %v", e.model, err)
		}
	}
	for name, tt := range map[string]struct {
		memory model.MiB
		want   string
	}{
		"NVIDIA A100-SXM4-80GB": {81920, "1g.10gb"},
		"NVIDIA A100-PCIE-40GB": {40960, "1g.5gb"},
		"NVIDIA H100 80GB HBM3": {81559, "1g.10gb"},
		"NVIDIA H100 NVL":       {95830, "1g.12gb"},
		"NVIDIA H200":           {143771, "1g.18gb"},
		"NVIDIA B200":           {183359, "1g.23gb"},
	} {
		g := Lookup(model.ParseModel(name), tt.memory)
		if g == nil || g.Find(tt.want) < 0 {
			t.Errorf("%s of %d MiB should offer %s", name, tt.memory, tt.want)
		}
	}
	if Lookup(model.ParseModel("Tesla V100-SXM2-32GB"), 32768) != nil {
		t.Error("a V100 cannot be cut")
	}
	if g := a100(t); g.Find("1g.5gb.me") != g.Find("1g.5gb+me") || g.Find("9g.1gb") != -1 {
		t.Error("profiles are found by either spelling, and only if they exist")
	}
}

func TestNewNamesTheField(t *testing.T) {
	good := Profile{ID: 1, Name: "1g", Size: 1, Starts: []int{0, 1}}
	for want, change := range map[string]func(*Profile){
		"profiles[0].name":      func(p *Profile) { p.Name = "" },
		"profiles[0].size":      func(p *Profile) { p.Size = 9 },
		"profiles[0].starts":    func(p *Profile) { p.Starts = nil },
		"profiles[0].starts[1]": func(p *Profile) { p.Starts = []int{0, 8} },
		"profiles[0].memory":    func(p *Profile) { p.Memory = -1 },
	} {
		p := good
		change(&p)
		if _, err := New(8, []Profile{p}); err == nil || !strings.HasPrefix(err.Error(), want+":") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := New(8, []Profile{good, good}); err == nil || !strings.HasPrefix(err.Error(), "profiles[1].id") {
		t.Errorf("got %v", err)
	}
}

func BenchmarkPlace(b *testing.B) {
	g := a100(b)
	for b.Loop() {
		g.Place(State{Used: 0b01100000}, 3)
	}
}
