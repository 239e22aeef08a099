package simulated

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/lab/fleet"
)

// collect watches until the test ends and returns what has been reported so far. It runs
// in a bubble of synctest.
func collect(t *testing.T, b device.Backend) func() []device.Event {
	t.Helper()
	var events []device.Event
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Watch(ctx, func(e device.Event) { events = append(events, e) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Watch = %v", err)
		}
	})
	return func() []device.Event {
		synctest.Wait()
		list := events
		events = nil
		return list
	}
}

func event(kind device.EventKind, uuid string, code int) device.Event {
	return device.Event{Kind: kind, UUID: uuid, GPUInstance: -1, ComputeInstance: -1, Code: code}
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFleet(t, Options{})
		b := s.Backend("h-0")
		uuid := inventory(t, b).Devices[3].UUID
		setFaults(t, s, "h-0", "device=3,xid=13") // before the first watch
		reported := collect(t, b)
		recovery := func(r device.Recovery) device.Event {
			e := event(device.RecoveryChanged, uuid, 0)
			e.Recovery = r
			return e
		}
		for _, step := range []struct {
			name, faults string
			want         []device.Event
		}{
			{"what waited", "device=3,xid=13", []device.Event{event(device.XID, uuid, 13)}},
			{"another", "device=3,xid=13;device=3,xid=79", []device.Event{event(device.XID, uuid, 79)}},
			{"the same again", "device=3,xid=13;device=3,xid=79;device=3,xid=79", []device.Event{event(device.XID, uuid, 79)}},
			{"one less is nothing", "device=3,xid=79", nil},
			{"ECC, gone", "device=3,ecc=2;device=3,gone", []device.Event{event(device.ECC, uuid, 0), event(device.Unavailable, uuid, 0)}},
			{"a verdict", "device=3,recovery=NODE_REBOOT", []device.Event{recovery(device.RecoveryReboot)}},
			{"another verdict", "device=3,recovery=GPU_RESET", []device.Event{recovery(device.RecoveryReset)}},
			{"cleared", "", []device.Event{recovery(device.RecoveryNone)}},
			{"of no device", "device=all,xid=120", []device.Event{event(device.XID, "", 120)}},
			{"without events", "device=3,hot=90;device=3,throttle;device=3,link-down;device=3,remap;device=2,hang", nil},
		} {
			setFaults(t, s, "h-0", step.faults)
			if got := reported(); !reflect.DeepEqual(got, step.want) {
				t.Errorf("%s: %+v, want %+v", step.name, got, step.want)
			}
		}
		if got := sampleOf(t, s.Backend("h-1")); got[3].Err != nil {
			t.Error("a fault of one node reached another")
		}
	})
}

func TestFaultsInSamples(t *testing.T) {
	tests := []struct {
		name, fault string
		check       func(s device.Sample) bool
	}{
		{"healthy", "", func(s device.Sample) bool {
			return s.Err == nil && s.Recovery == "" && len(s.Throttle) == 0 && s.Values[device.NVLinksActive] == 18 &&
				s.Values[device.ECCUncorrected] == 0 && s.Values[device.RemapPending] == 0
		}},
		{"ecc", "device=1,ecc=5", func(s device.Sample) bool {
			return s.Values[device.ECCUncorrected] == 5 && s.Values[device.ECCUncorrectedTotal] == 5
		}},
		{"hot", "device=1,hot=95", func(s device.Sample) bool {
			return s.Values[device.Temperature] == 95 && slices.Equal(s.Throttle, []string{"hw-slowdown", "hw-thermal-slowdown"}) &&
				uint64(s.Values[device.ClockEventReasons])&0x48 == 0x48 && s.Values[device.SMClock] <= 990
		}},
		{"warm", "device=1,hot=87", func(s device.Sample) bool {
			return s.Values[device.Temperature] == 87 && slices.Equal(s.Throttle, []string{"sw-thermal-slowdown"})
		}},
		{"throttled", "device=1,throttle=hw-power-brake-slowdown", func(s device.Sample) bool {
			return slices.Equal(s.Throttle, []string{"hw-power-brake-slowdown"}) && uint64(s.Values[device.ClockEventReasons])&0x80 != 0
		}},
		{"gone", "device=1,gone", func(s device.Sample) bool { return errors.Is(s.Err, device.ErrNotFound) && s.Values == nil }},
		{"recovery", "device=1,recovery=DRAIN_AND_RESET", func(s device.Sample) bool { return s.Recovery == device.RecoveryDrainAndReset }},
		{"link", "device=1,link-down=2", func(s device.Sample) bool {
			return s.Values[device.NVLinksActive] == 16 && s.Values[device.NVLinkErrors] == 2
		}},
		{"more links than there are", "device=1,link-down=60", func(s device.Sample) bool { return s.Values[device.NVLinksActive] == 0 }},
		{"remap", "device=1,remap;device=1,remap=failed", func(s device.Sample) bool {
			return s.Values[device.RemapPending] == 1 && s.Values[device.RemapFailed] == 1
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFleet(t, options(newClock()))
			setFaults(t, s, "h-0", tt.fault)
			samples := sampleOf(t, s.Backend("h-0"))
			if !tt.check(samples[1]) {
				t.Errorf("%+v", samples[1])
			}
			if !tests[0].check(samples[0]) {
				t.Errorf("its neighbour: %+v", samples[0])
			}
			setFaults(t, s, "h-0", "")
			again := sampleOf(t, s.Backend("h-0"))[1]
			if again.Err != nil || again.Recovery != "" || again.Values[device.NVLinksActive] != 18 || again.Values[device.RemapFailed] != 0 {
				t.Errorf("after it is cleared: %+v", again)
			}
		})
	}
}

// A device that is no longer hot cools down as any does; throttled, it draws less.
func TestFaultsMove(t *testing.T) {
	c := newClock()
	s := newFleet(t, options(c))
	value := func(f device.Field) float64 { return sampleOf(t, s.Backend("h-0"))[1].Values[f] }
	setFaults(t, s, "h-0", "device=1,hot=95")
	c.seconds(600)
	if got := value(device.Temperature); got != 95 {
		t.Errorf("%g degrees", got)
	}
	setFaults(t, s, "h-0", "")
	c.seconds(10)
	if got := value(device.Temperature); got > 85 || got < 60 {
		t.Errorf("10 s after: %g degrees", got)
	}
	s.nodes["h-0"].setLoad([]Use{{Device: 1, Utilization: 100, Start: WholeDevice}})
	c.seconds(60)
	before := value(device.Power)
	setFaults(t, s, "h-0", "device=1,throttle")
	c.seconds(60)
	if after := value(device.Power); after > before*0.7 || value(device.Utilization) < 90 || value(device.SMClock) != 990 {
		t.Errorf("throttled: %g W from %g, utilization %g", after, before, value(device.Utilization))
	}
}

// A device that hangs keeps its calls until their deadline, and no longer than the fault.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFleet(t, Options{})
		b := s.Backend("h-0")
		inv := inventory(t, b)
		setFaults(t, s, "h-0", "device=1,hang")
		within := func(f func(ctx context.Context) error) error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			begin := time.Now()
			err := f(ctx)
			if passed := time.Since(begin); passed != 5*time.Second {
				t.Errorf("returned after %v", passed)
			}
			return err
		}
		for name, call := range map[string]func(context.Context) error{
			"Edits":  func(ctx context.Context) error { _, err := b.Edits(ctx, []string{inv.Devices[1].UUID}); return err },
			"SetMIG": func(ctx context.Context) error { return b.SetMIG(ctx, inv.Devices[1].UUID, true) },
			"Reset":  func(ctx context.Context) error { return b.Reset(ctx, inv.Devices[1].UUID) },
		} {
			if err := within(call); !errors.Is(err, device.ErrTimeout) {
				t.Errorf("%s = %v", name, err)
			}
		}
		var samples []device.Sample
		if err := within(func(ctx context.Context) (err error) { samples, err = b.Sample(ctx); return err }); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(samples[1].Err, device.ErrTimeout) || samples[0].Err != nil || len(samples[0].Values) == 0 {
			t.Errorf("samples %+v", samples)
		}
		if err := b.SetMIG(t.Context(), inv.Devices[0].UUID, true); err != nil {
			t.Errorf("another device: %v", err)
		}
		if got := inventory(t, b); len(got.Devices) != len(inv.Devices) {
			t.Errorf("the inventory has %d devices", len(got.Devices))
		}
		setFaults(t, s, "h-0", "device=all,hang")
		if err := within(func(ctx context.Context) error { _, err := b.Inventory(ctx); return err }); !errors.Is(err, device.ErrTimeout) {
			t.Errorf("Inventory when all hang = %v", err)
		}
		done := make(chan error, 1)
		go func() { _, err := b.Inventory(context.Background()); done <- err }()
		synctest.Wait()
		setFaults(t, s, "h-0", "")
		if err := <-done; err != nil {
			t.Errorf("once the fault is over: %v", err)
		}
	})
}

func TestNoDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFleet(t, Options{})
		b := s.Backend("h-0")
		ended := make(chan error, 1)
		go func() { ended <- b.Watch(t.Context(), func(device.Event) {}) }()
		synctest.Wait()
		setFaults(t, s, "h-0", "device=all,no-driver")
		if err := <-ended; !errors.Is(err, device.ErrNoDriver) {
			t.Errorf("Watch = %v", err)
		}
		if err := b.Watch(t.Context(), func(device.Event) {}); !errors.Is(err, device.ErrNoDriver) {
			t.Errorf("Watch again = %v", err)
		}
		if _, err := b.Inventory(t.Context()); !errors.Is(err, device.ErrNoDriver) {
			t.Errorf("Inventory = %v", err)
		}
		if _, err := b.Sample(t.Context()); !errors.Is(err, device.ErrNoDriver) {
			t.Errorf("Sample = %v", err)
		}
		setFaults(t, s, "h-0", "")
		inventory(t, b)
	})
}

func TestReset(t *testing.T) {
	s := newFleet(t, options(newClock()))
	b := s.Backend("h-0")
	uuid := inventory(t, b).Devices[1].UUID
	const faults = "device=1,recovery;device=1,ecc=3;device=1,throttle;device=1,remap;device=1,link-down"
	setFaults(t, s, "h-0", faults)
	s.nodes["h-0"].setLoad([]Use{{Device: 1, Utilization: 50, Start: WholeDevice}})
	if err := b.Reset(t.Context(), uuid); !errors.Is(err, device.ErrBusy) {
		t.Errorf("while it is used: %v", err)
	}
	s.nodes["h-0"].setLoad(nil)
	if err := b.Reset(t.Context(), uuid); err != nil {
		t.Fatal(err)
	}
	setFaults(t, s, "h-0", faults+";device=0,xid=1") // the list is set again, with one more
	got := sampleOf(t, b)[1]
	if got.Recovery != "" || len(got.Throttle) != 0 || got.Values[device.ECCUncorrected] != 0 || got.Values[device.ECCUncorrectedTotal] != 3 ||
		got.Values[device.RemapPending] != 0 || got.Values[device.RemappedUncorrectable] != 1 || got.Values[device.NVLinksActive] != 17 {
		t.Errorf("after the reset: %+v", got)
	}
	if err := b.Reset(t.Context(), "GPU-other"); !errors.Is(err, device.ErrNotFound) {
		t.Errorf("an unknown device: %v", err)
	}
}

func TestFaultsOfMissingDevices(t *testing.T) {
	s := newFleet(t, Options{})
	setFaults(t, s, "t-0", "device=1,gone")
	err := s.SetFaults("t-0", []fleet.Fault{{Device: 0, Kind: fleet.FaultGone}, {Device: 2, Kind: fleet.FaultGone}})
	if err == nil || !strings.Contains(err.Error(), "device=2,gone: there are devices 0 to 1") {
		t.Errorf("error %v", err)
	}
	if got := sampleOf(t, s.Backend("t-0")); got[0].Err != nil || got[1].Err == nil {
		t.Error("a wrong list changed something")
	}
}
