package simulated

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

func TestMIG(t *testing.T) {
	s := newFleet(t, Options{})
	b := s.Backend("h-0")
	d := inventory(t, b).Devices[0]
	if d.MIG.Enabled || len(d.MIG.Profiles) != 7 || !slices.IsSortedFunc(d.MIG.Profiles, func(a, b device.Profile) int { return a.ID - b.ID }) {
		t.Fatalf("MIG = %+v", d.MIG)
	}
	create := func(profile, start int) error {
		_, err := b.CreateInstance(t.Context(), d.UUID, profile, start)
		return err
	}
	if err := create(9, 0); !errors.Is(err, device.ErrNotSupported) {
		t.Errorf("while MIG mode is off: %v", err)
	}
	s.nodes["h-0"].setLoad([]Use{{Device: 0, Start: WholeDevice}})
	if err := b.SetMIG(t.Context(), d.UUID, true); !errors.Is(err, device.ErrBusy) {
		t.Errorf("while the device is used: %v", err)
	}
	s.nodes["h-0"].setLoad(nil)
	if err := b.SetMIG(t.Context(), d.UUID, true); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name           string
		profile, start int
		want           error
		text           string
	}{
		{"3g.40gb", 9, 4, nil, ""},
		{"there again", 9, 4, device.ErrBusy, "3g.40gb at slice 4 is in the way"},
		{"all of it", 0, 0, device.ErrBusy, "3g.40gb at slice 4 is in the way"},
		{"where the profile cannot begin", 9, 2, device.ErrNotSupported, "may begin at slices [0 4]"},
		{"an unknown profile", 77, 0, device.ErrNotSupported, "no profile 77"},
		{"1g.10gb+me", 20, 0, nil, ""},
		{"a second with media engines", 20, 1, device.ErrBusy, "has the media engines"},
		{"1g.10gb beside it", 19, 1, nil, ""},
		{"1g.20gb", 15, 2, nil, ""},
	} {
		err := create(step.profile, step.start)
		if !errors.Is(err, step.want) || step.want != nil && !strings.Contains(err.Error(), step.text) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
	}
	instances := inventory(t, b).Devices[0].MIG.Instances
	var layout []string
	ids := map[int]bool{}
	for _, i := range instances {
		layout = append(layout, i.Profile)
		ids[i.GPUInstance] = true
		if !strings.HasPrefix(i.UUID, "MIG-") || i.MemoryMiB == 0 || i.Size == 0 {
			t.Errorf("instance %+v", i)
		}
	}
	if !slices.Equal(layout, []string{"1g.10gb+me", "1g.10gb", "1g.20gb", "3g.40gb"}) || len(ids) != 4 {
		t.Errorf("layout %v, ids %v", layout, ids)
	}
	if err := b.SetMIG(t.Context(), d.UUID, false); !errors.Is(err, device.ErrBusy) {
		t.Errorf("MIG mode off with instances: %v", err)
	}

	big := instances[3]
	s.nodes["h-0"].setLoad([]Use{{Device: 0, Start: 4, Utilization: 30, MemoryMiB: 1000}})
	if err := b.DestroyInstance(t.Context(), d.UUID, big.GPUInstance); !errors.Is(err, device.ErrBusy) {
		t.Errorf("destroy what is used: %v", err)
	}
	if err := b.DestroyInstance(t.Context(), d.UUID, instances[0].GPUInstance); err != nil {
		t.Errorf("destroy what is not: %v", err)
	}
	if err := b.DestroyInstance(t.Context(), d.UUID, instances[0].GPUInstance); !errors.Is(err, device.ErrNotFound) {
		t.Errorf("destroy it again: %v", err)
	}
	s.nodes["h-0"].setLoad(nil)
	if err := b.DestroyInstance(t.Context(), d.UUID, big.GPUInstance); err != nil {
		t.Errorf("destroy what is no longer used: %v", err)
	}
	again, err := b.CreateInstance(t.Context(), d.UUID, 9, 4)
	if err != nil || again.UUID != big.UUID && again.GPUInstance == big.GPUInstance {
		t.Errorf("the same cut again: %+v, %v, was %+v", again, err, big)
	}
	if err := b.SetMIG(t.Context(), inventory(t, s.Backend("t-0")).Devices[0].UUID, true); !errors.Is(err, device.ErrNotFound) {
		t.Errorf("a device of another node: %v", err)
	}
	t4 := s.Backend("t-0")
	if err := t4.SetMIG(t.Context(), inventory(t, t4).Devices[0].UUID, true); !errors.Is(err, device.ErrNotSupported) {
		t.Errorf("a T4: %v", err)
	}
}

// Whatever is tried, the state stays legal, and what is legal is not refused.
func TestMIGStaysLegal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newFleet(t, Options{})
		b := s.Backend("h-0")
		uuid := inventory(t, b).Devices[0].UUID
		if err := b.SetMIG(t.Context(), uuid, true); err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			mig := inventory(t, b).Devices[0].MIG
			if len(mig.Instances) > 0 && rapid.IntRange(0, 2).Draw(rt, "destroy") == 0 {
				at := rapid.SampledFrom(mig.Instances).Draw(rt, "instance")
				if err := b.DestroyInstance(t.Context(), uuid, at.GPUInstance); err != nil {
					rt.Fatal(err)
				}
				continue
			}
			p := rapid.SampledFrom(mig.Profiles).Draw(rt, "profile")
			start := rapid.IntRange(-1, 8).Draw(rt, "start")
			taken, media := map[int]bool{}, 0
			for _, i := range mig.Instances {
				for slice := i.Start; slice < i.Start+i.Size; slice++ {
					taken[slice] = true
				}
				if strings.HasSuffix(i.Profile, "+me") {
					media++
				}
			}
			legal := slices.Contains(p.Starts, start) && (!strings.HasSuffix(p.Name, "+me") || media == 0)
			for slice := start; slice < start+p.Size; slice++ {
				legal = legal && !taken[slice]
			}
			i, err := b.CreateInstance(t.Context(), uuid, p.ID, start)
			if (err == nil) != legal {
				rt.Fatalf("%s at %d beside %+v: %v, legal %v", p.Name, start, mig.Instances, err, legal)
			}
			if err == nil && (i.Start != start || i.ProfileID != p.ID || i.Size != p.Size) {
				rt.Fatalf("asked for %s at %d, got %+v", p.Name, start, i)
			}
		}
	})
}

func TestInstanceTelemetry(t *testing.T) {
	c := newClock()
	s := newFleet(t, options(c))
	b := s.Backend("h-0")
	uuid := inventory(t, b).Devices[0].UUID
	if err := b.SetMIG(t.Context(), uuid, true); err != nil {
		t.Fatal(err)
	}
	big, err := b.CreateInstance(t.Context(), uuid, 9, 4)
	if err != nil {
		t.Fatal(err)
	}
	small, err := b.CreateInstance(t.Context(), uuid, 19, 0)
	if err != nil {
		t.Fatal(err)
	}
	// 90 % of three of seven slices.
	s.nodes["h-0"].setLoad([]Use{{Device: 0, Start: 4, Utilization: 90 * 3 / 7.0, MemoryMiB: 30000}})
	c.seconds(30)
	got := sampleOf(t, b)[0].Instances
	if v := got[big.UUID]; v[device.Utilization] != 90 || v[device.MemoryUsed] != 30000 || v[device.MemoryFree] != float64(big.MemoryMiB-30000) {
		t.Errorf("the one that is used: %v", v)
	}
	if v := got[small.UUID]; v[device.Utilization] != 0 || v[device.MemoryUsed] != 0 {
		t.Errorf("the other: %v", v)
	}
}

// Hardware keeps its cuts when the agent restarts.
func TestMemory(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "mig")
	o := Options{Memory: folder}
	b := newFleet(t, o).Backend("h-0")
	uuid := inventory(t, b).Devices[2].UUID
	if err := b.SetMIG(t.Context(), uuid, true); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateInstance(t.Context(), uuid, 9, 4); err != nil {
		t.Fatal(err)
	}
	before := inventory(t, b)
	after := inventory(t, newFleet(t, o).Backend("h-0"))
	if !reflect.DeepEqual(before, after) || len(after.Devices[2].MIG.Instances) != 1 {
		t.Errorf("after a restart %+v\nbefore %+v", after, before)
	}

	// A change that cannot be kept does not happen.
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateInstance(t.Context(), uuid, 9, 0); err == nil || len(inventory(t, b).Devices[2].MIG.Instances) != 1 {
		t.Errorf("without its folder: %v", err)
	}

	for text, want := range map[string]string{
		"{": "unexpected end",
		`{"` + uuid + `":{"enabled":true,"instances":[{"ProfileID":9,"Start":0},{"ProfileID":9,"Start":0,"Size":4}]}}`: "in the way",
		`{"` + uuid + `":{"enabled":true,"instances":[{"ProfileID":9,"Start":0},{"ProfileID":9,"Start":4}]}}`:          "listed twice",
		`{"` + uuid + `":{"enabled":true,"instances":[{"ProfileID":1}]}}`:                                              "no profile 1",
	} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "h-0.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(parse(t), o); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "h-0.json") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
