package mig

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// story is one manager on one model, with a clock.
type story struct {
	*testing.T
	model   *model
	clock   *clock
	path    string
	manager *Manager
}

func begin(t *testing.T, change func(*Options)) *story {
	s := &story{T: t, model: newModel(2), clock: &clock{time.Unix(1000, 0)}, path: filepath.Join(t.TempDir(), "mig.json")}
	s.manager = manager(t, s.model, s.path, s.clock, change)
	return s
}

func (s *story) ensure(p Placement) device.Instance {
	s.Helper()
	instance, err := s.manager.Ensure(context.Background(), p)
	if err != nil {
		s.Fatal(err)
	}
	return instance
}

func (s *story) collect(live ...Placement) {
	s.Helper()
	if err := s.manager.Collect(context.Background(), live); err != nil {
		s.Fatal(err)
	}
}

func (s *story) later(d time.Duration) { s.clock.now = s.clock.now.Add(d) }

// done: the model saw nothing that a good manager does not do.
func (s *story) done() {
	s.Helper()
	for _, wrong := range s.model.wrong {
		s.Error(wrong)
	}
}

var (
	small = Placement{"GPU-0", "1g.18gb", 4}
	large = Placement{"GPU-0", "3g.71gb", 4}
)

func TestCreateReuseRemove(t *testing.T) {
	s := begin(t, nil)
	first := s.ensure(small)
	if first.Start != 4 || first.Profile != "1g.18gb" || !s.model.gpu("GPU-0").on || s.model.gpu("GPU-1").on {
		t.Fatalf("instance %+v", first)
	}
	if again := s.ensure(small); again != first {
		t.Errorf("a second call made %+v", again)
	}
	s.collect(small)
	s.later(time.Hour)
	s.collect(small)
	s.collect()
	s.later(59 * time.Second)
	s.collect()
	if again := s.ensure(small); again != first {
		t.Errorf("a lingering instance was not used again: %+v", again)
	}
	// Wanted again, so the minute begins anew.
	s.collect()
	s.later(59 * time.Second)
	s.collect()
	if s.model.ours() != 1 {
		t.Error("removed before it lingered")
	}
	s.later(time.Second)
	s.collect()
	if s.model.ours() != 0 || s.model.gpu("GPU-0").on {
		t.Errorf("%d instances left, MIG mode %v", s.model.ours(), s.model.gpu("GPU-0").on)
	}
	s.done()
}

// A lingering instance gives way at once to another placement and to the whole device;
// one in use does not.
func TestLingeringGivesWay(t *testing.T) {
	s := begin(t, nil)
	s.ensure(small)
	_, err := s.manager.Ensure(context.Background(), large)
	if !errors.Is(err, device.ErrBusy) || !strings.Contains(err.Error(), "1g.18gb at slice 4") {
		t.Errorf("error %v, want busy with what is in the way", err)
	}
	if err := s.manager.EnsureWhole(context.Background(), "GPU-0"); !errors.Is(err, device.ErrBusy) {
		t.Errorf("error %v, want busy", err)
	}
	s.collect()
	s.ensure(large)
	s.collect()
	if err := s.manager.EnsureWhole(context.Background(), "GPU-0"); err != nil {
		t.Fatal(err)
	}
	if s.model.gpu("GPU-0").on || s.model.ours() != 0 {
		t.Error("the device is not whole")
	}
	s.done()
}

func TestForeignInstances(t *testing.T) {
	s := begin(t, nil)
	g := s.model.gpu("GPU-0")
	g.on = true
	existing := s.model.add(g, profiles()[4], 4)
	g.foreign[existing.GPUInstance] = true
	if used := s.ensure(small); used != existing {
		t.Errorf("got %+v, want the existing instance", used)
	}
	_, err := s.manager.Ensure(context.Background(), large)
	if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), existing.UUID) {
		t.Errorf("error %v, want foreign with the UUID", err)
	}
	if err := s.manager.EnsureWhole(context.Background(), "GPU-0"); !errors.Is(err, ErrForeign) {
		t.Errorf("error %v, want foreign", err)
	}
	s.ensure(Placement{"GPU-0", "1g.18gb", 0})
	s.collect()
	s.later(time.Hour)
	s.collect()
	if len(g.instances) != 1 || !g.on {
		t.Errorf("instances %v, MIG mode %v, want the foreign ones untouched", g.instances, g.on)
	}
	s.done()
}

func TestRestart(t *testing.T) {
	s := begin(t, nil)
	first := s.ensure(small)
	s.manager = manager(t, s.model, s.path, s.clock, nil)
	// No Collect has said yet that it is not wanted.
	if _, err := s.manager.Ensure(context.Background(), large); !errors.Is(err, device.ErrBusy) {
		t.Errorf("error %v, want busy", err)
	}
	s.collect(small)
	if again := s.ensure(small); again != first {
		t.Errorf("got %+v", again)
	}
	s.collect()
	s.later(time.Hour)
	s.collect()
	if s.model.ours() != 0 || s.model.gpu("GPU-0").on {
		t.Error("its own instance is left")
	}
	s.done()
}

// After a reboot the same ids and UUIDs come back for instances of another program.
func TestReboot(t *testing.T) {
	s := begin(t, nil)
	first := s.ensure(small)
	s.model.gpu("GPU-0").foreign[first.GPUInstance] = true
	s.manager = manager(t, s.model, s.path, s.clock, func(o *Options) { o.Boot = "boot-2" })
	s.collect()
	s.later(time.Hour)
	s.collect()
	if len(s.model.gpu("GPU-0").instances) != 1 {
		t.Error("an instance was destroyed that only looks like an old one")
	}
	s.done()
}

func TestModeLostByHand(t *testing.T) {
	s := begin(t, nil)
	s.ensure(small)
	g := s.model.gpu("GPU-0")
	g.instances, g.on, g.onByUs = nil, false, false
	s.collect(small)
	if owned, _ := s.manager.Owned(context.Background()); len(owned) != 0 {
		t.Errorf("still in the journal: %v", owned)
	}
	// Now an administrator turns it on: it stays on.
	g.on = true
	s.later(time.Hour)
	s.collect()
	if !g.on {
		t.Error("another program's MIG mode was turned off")
	}
	s.ensure(small)
	s.done()
}

func TestBusyIsRetried(t *testing.T) {
	var logged bytes.Buffer
	told := 0
	s := begin(t, func(o *Options) {
		o.Busy = func(p Placement) {
			told++
			if p != small {
				t.Errorf("told about %v", p)
			}
		}
		o.Log = slog.New(slog.NewTextHandler(&logged, nil))
	})
	instance := s.ensure(small)
	g := s.model.gpu("GPU-0")
	g.busyInst[instance.GPUInstance] = true
	s.collect()
	for range 3 {
		s.later(time.Hour)
		s.collect()
	}
	if told != 3 || strings.Count(logged.String(), "still in use") != 1 {
		t.Errorf("told %d times, log:\n%s", told, logged.String())
	}
	delete(g.busyInst, instance.GPUInstance)
	s.collect()
	if s.model.ours() != 0 {
		t.Error("still there")
	}
	s.done()
}

func TestMIGManagerOwnsTheNode(t *testing.T) {
	state := ""
	s := begin(t, func(o *Options) { o.Manager = func() string { return state } })
	s.ensure(small)
	state = "nvidia.com/mig.config.state=success"
	s.ensure(small) // what exists may be used
	_, err := s.manager.Ensure(context.Background(), Placement{"GPU-1", "1g.18gb", 0})
	if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), state) {
		t.Errorf("error %v, want the program that manages MIG", err)
	}
	s.collect()
	s.later(time.Hour)
	s.collect()
	if s.model.ours() != 1 || s.model.gpu("GPU-1").on {
		t.Error("something was changed")
	}
	s.done()
}

func TestCannotBe(t *testing.T) {
	s := begin(t, nil)
	s.model.gpu("GPU-1").hasNoMIG = true
	tests := []struct {
		name string
		want Placement
		is   error
		says string
	}{
		{"no such device", Placement{"GPU-9", "1g.18gb", 0}, device.ErrNotFound, "GPU-9"},
		{"no MIG", Placement{"GPU-1", "1g.18gb", 0}, device.ErrNotSupported, "NVIDIA H200"},
		{"no such profile", Placement{"GPU-0", "9g.9gb", 0}, device.ErrNotSupported, "profile"},
		{"no such start", Placement{"GPU-0", "2g.35gb", 1}, device.ErrNotSupported, "[0 2 4]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := s.manager.Ensure(context.Background(), test.want)
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want %v with %q", err, test.is, test.says)
			}
		})
	}
	if err := s.manager.EnsureWhole(context.Background(), "GPU-1"); err != nil {
		t.Errorf("a device without MIG is whole: %v", err)
	}
	s.model.gpu("GPU-0").on = false
	s.model.gpu("GPU-0").busy = true
	if _, err := s.manager.Ensure(context.Background(), small); !errors.Is(err, device.ErrBusy) {
		t.Errorf("error %v, want busy", err)
	}
	s.done()
}

func TestPlusProfile(t *testing.T) {
	s := begin(t, nil)
	if got := s.ensure(Placement{"GPU-0", "1g.18gb.me", 6}); got.Profile != "1g.18gb+me" {
		t.Errorf("got %+v", got)
	}
	s.collect(Placement{"GPU-0", "1g.18gb.me", 6})
	s.later(time.Hour)
	s.collect(Placement{"GPU-0", "1g.18gb.me", 6})
	if s.model.ours() != 1 {
		t.Error("removed while wanted")
	}
	s.done()
}

// A journal that cannot be written stops the cut before it is made.
func TestJournalCannotBeWritten(t *testing.T) {
	s := begin(t, nil)
	if err := os.MkdirAll(filepath.Join(s.path, "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := s.manager.Ensure(context.Background(), small); err == nil || !strings.Contains(err.Error(), "journal") {
		t.Errorf("error %v, want the journal's", err)
	}
	if s.model.ours() != 0 || s.model.gpu("GPU-0").on {
		t.Error("cut without a journal")
	}
	if err := os.RemoveAll(s.path); err != nil {
		t.Fatal(err)
	}
	s.ensure(small)
	s.done()
}

func TestUnreadableJournal(t *testing.T) {
	for _, content := range []string{"{", `{"version":9}`, `[]`, "\x00"} {
		path := filepath.Join(t.TempDir(), "mig.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		model := newModel(1)
		g := model.gpu("GPU-0")
		g.on = true
		g.foreign[model.add(g, profiles()[4], 4).GPUInstance] = true
		m := manager(t, model, path, &clock{}, nil)
		if err := m.Collect(context.Background(), nil); err != nil {
			t.Error(err)
		}
		if kept, err := os.ReadFile(path + ".unreadable"); err != nil || string(kept) != content {
			t.Errorf("kept %q, %v", kept, err)
		}
		if len(model.wrong) > 0 {
			t.Error(model.wrong)
		}
	}
}

func TestOptions(t *testing.T) {
	if _, err := New(newModel(1), Options{Journal: "relative"}); err == nil || !strings.Contains(err.Error(), "mig.journal") {
		t.Errorf("error %v, want mig.journal", err)
	}
}
