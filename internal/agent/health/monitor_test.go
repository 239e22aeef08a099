package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tangram-dev/tangram/core/health"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// fake is a back end whose answers a test sets.
type fake struct {
	device.Backend // what is not faked panics

	mu       sync.Mutex
	sample   func(ctx context.Context) ([]device.Sample, error)
	watchErr error
	watches  int
	reset    func(uuid string) error
	resets   int
	inFlight int
	most     int
	events   chan device.Event
}

func (f *fake) Sample(ctx context.Context) ([]device.Sample, error) {
	f.mu.Lock()
	f.inFlight++
	f.most = max(f.most, f.inFlight)
	sample := f.sample
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.inFlight--
		f.mu.Unlock()
	}()
	return sample(ctx)
}

func (f *fake) Watch(ctx context.Context, report func(device.Event)) error {
	f.mu.Lock()
	f.watches++
	err := f.watchErr
	f.mu.Unlock()
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-f.events:
			if e.Kind == "" {
				return errors.New("event set is broken")
			}
			report(e)
		}
	}
}

func (f *fake) Reset(_ context.Context, uuid string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resets++
	return f.reset(uuid)
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) resetCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.resets
}

// inventory has two GPUs, the second cut in two.
func inventory() *device.Inventory {
	return &device.Inventory{Devices: []device.Device{
		{Index: 0, UUID: "GPU-a", PCIBusID: "0000:01:00.0", PCIeWidth: 16},
		{Index: 1, UUID: "GPU-b", PCIBusID: "0000:02:00.0", MIG: &device.MIG{Enabled: true, Instances: []device.Instance{
			{UUID: "MIG-1", GPUInstance: 1, Start: 0}, {UUID: "MIG-2", GPUInstance: 2, Start: 4},
		}}},
	}}
}

func fine() []device.Sample {
	return []device.Sample{
		{UUID: "GPU-a", Values: map[device.Field]float64{device.Temperature: 40, device.PCIeLanes: 16}},
		{UUID: "GPU-b", Values: map[device.Field]float64{device.Temperature: 41}},
	}
}

func always(s []device.Sample) func(context.Context) ([]device.Sample, error) {
	return func(context.Context) ([]device.Sample, error) { return s, nil }
}

// bench runs a monitor in a bubble of fake time.
type bench struct {
	t    *testing.T
	f    *fake
	m    *Monitor
	mu   sync.Mutex
	log  []string
	stop func()
}

func run(t *testing.T, change func(*Options)) *bench {
	t.Helper()
	b := &bench{t: t, f: &fake{sample: always(fine()), events: make(chan device.Event)}}
	o := Options{Backend: b.f, Tenants: func(string, int) []string { return []string{"team"} }}
	o.OnChange = func(c Change) {
		b.mu.Lock()
		defer b.mu.Unlock()
		name := c.UUID
		if c.Instance != "" {
			name = c.Instance
		}
		b.log = append(b.log, fmt.Sprintf("%s %s->%s %s", name, c.From.State, c.To.State, c.To.Code))
		if s, ok := b.m.Status(name); !ok || s.State < c.To.State { // the sink may ask
			t.Errorf("Status(%s) in the sink: %v %v, told %v", name, s.State, ok, c.To.State)
		}
	}
	if change != nil {
		change(&o)
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.m = m
	m.SetInventory(inventory())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	b.stop = func() { cancel(); <-done }
	b.pass(time.Second)
	return b
}

// pass lets time pass until all is quiet.
func (b *bench) pass(d time.Duration) {
	time.Sleep(d) // fake time: returns when all goroutines have nothing to do
	synctest.Wait()
}

func (b *bench) event(e device.Event) {
	b.f.events <- e
	synctest.Wait()
}

func (b *bench) want(id string, state health.State) {
	b.t.Helper()
	if s, ok := b.m.Status(id); !ok || s.State != state {
		b.t.Errorf("%s: %s (%s) %v, want %s", id, s.State, s.Reason, ok, state)
	}
}

func (b *bench) told(want ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if diff := cmp.Diff(want, b.log); diff != "" {
		b.t.Errorf("changes (-want +got):\n%s", diff)
	}
	b.log = nil
}

func xid(uuid string, gi, code int) device.Event {
	return device.Event{Kind: device.XID, UUID: uuid, GPUInstance: gi, ComputeInstance: gi, Code: code}
}

func TestFanOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, nil)
		defer b.stop()
		b.event(xid("GPU-b", -1, 95))
		for _, id := range []string{"GPU-b", "GPU-b::0", "GPU-b::mig-1g.18gb@4", "GPU-b::mig-1g.18gb@5", "MIG-1", "MIG-2"} {
			b.want(id, health.Degraded)
		}
		b.want("GPU-a", health.Healthy)
		b.want("GPU-a::1", health.Healthy)
		if _, ok := b.m.Status("GPU-zzz"); ok {
			t.Error("an unknown device has a status")
		}
		if _, ok := b.m.Status(""); ok {
			t.Error("no name has a status")
		}
		b.pass(time.Second)
		b.told("GPU-b Healthy->Degraded ResetError", "GPU-b Degraded->Degraded ResetError") // then: over, quiet time runs
		b.pass(11 * time.Minute)
		b.want("MIG-1", health.Healthy)
		b.told("GPU-b Degraded->Healthy ")
	})
}

func TestInstanceErrorStaysLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, nil)
		defer b.stop()
		b.event(xid("GPU-b", 1, 94))
		b.want("MIG-1", health.Suspect)
		b.want("GPU-b::mig-3g.71gb@0", health.Suspect)
		b.want("MIG-2", health.Healthy)
		b.want("GPU-b", health.Healthy)
		b.told("MIG-1 Healthy->Suspect RestartError")
		if r := b.m.Readings()[1]; r.XIDs[94] != 1 {
			t.Errorf("reading: %+v", r)
		}
		b.event(xid("GPU-b", 2, 95)) // wants a reset: the whole device is concerned
		b.want("MIG-1", health.Degraded)
		b.want("GPU-b", health.Degraded)
		b.pass(12 * time.Minute)
		b.want("MIG-1", health.Healthy)
		if got := b.m.Readings()[1].Sample.Values[device.LastXID]; got != 95 {
			t.Errorf("last XID %v", got)
		}
	})
}

func TestApplicationErrorsAreCountedOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, nil)
		defer b.stop()
		for range 100 {
			b.event(xid("GPU-a", -1, 31))
			b.event(xid("GPU-a", -1, 109))
			b.pass(time.Second)
		}
		b.want("GPU-a", health.Healthy)
		b.told()
		if r := b.m.Readings()[0]; r.XIDs[31] != 100 || r.XIDs[109] != 100 || r.RecentXIDs[31] != 100 {
			t.Errorf("counts: %v, recent %v", r.XIDs, r.RecentXIDs)
		}
		b.pass(4 * time.Minute)
		if r := b.m.Readings()[0]; r.RecentXIDs[31] == 0 || r.RecentXIDs[31] == 100 {
			t.Errorf("after 4 minutes, of the last 5: %v", r.RecentXIDs)
		}
		b.pass(2 * time.Minute)
		if r := b.m.Readings()[0]; r.XIDs[31] != 100 || r.RecentXIDs[31] != 0 {
			t.Errorf("after 6 minutes: %v, recent %v", r.XIDs, r.RecentXIDs)
		}
	})
}

func TestErrorOfUnknownDeviceConcernsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, nil)
		defer b.stop()
		b.event(device.Event{Kind: device.Unavailable, GPUInstance: -1})
		b.want("GPU-a", health.Failed)
		b.want("GPU-b", health.Failed)
		b.event(device.Event{Kind: device.ECC, UUID: "GPU-other", GPUInstance: -1})
		b.event(device.Event{Kind: "Strange", UUID: "GPU-a"})
		b.event(xid("GPU-a", 77, -5))
		b.event(xid("GPU-a", -1, 1<<40))
		b.pass(2 * time.Hour)
		b.want("GPU-a", health.Healthy) // the samples show it there
	})
}

func TestVerdictByEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, nil)
		defer b.stop()
		s := fine()
		s[0].Recovery = device.RecoveryReboot
		b.f.set(func() { b.f.sample = always(s) })
		b.event(device.Event{Kind: device.RecoveryChanged, UUID: "GPU-a", GPUInstance: -1, Recovery: device.RecoveryReboot})
		b.want("GPU-a", health.Failed)
		// An event without verdict is no verdict.
		b.event(device.Event{Kind: device.RecoveryChanged, UUID: "GPU-a", GPUInstance: -1})
		b.pass(2 * time.Hour)
		b.want("GPU-a", health.Failed)
	})
}

func TestWatchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		b := run(t, func(o *Options) {
			o.OnCall = func(call string, err error, _ time.Duration) {
				if call == "watch" && err != nil {
					calls.Add(1)
				}
			}
		})
		defer b.stop()
		b.f.set(func() { b.f.watchErr = errors.New("no events") })
		b.event(device.Event{}) // ends the watch that runs
		if b.m.Watched() {
			t.Error("still watched")
		}
		b.pass(time.Minute)
		b.want("GPU-a", health.Healthy)
		b.pass(90 * time.Second)
		b.want("GPU-a", health.Suspect)
		b.pass(10 * time.Minute)
		if b.f.watches > 20 || b.f.watches < 10 {
			t.Errorf("%d watches in 12.5 minutes: the pause does not grow to a minute", b.f.watches)
		}
		if int(calls.Load()) != b.f.watches {
			t.Errorf("%d calls told of, %d made", calls.Load(), b.f.watches)
		}
		b.f.set(func() { b.f.watchErr = nil })
		b.pass(3 * time.Minute)
		if !b.m.Watched() {
			t.Error("not watched again")
		}
		b.want("GPU-a", health.Healthy)

		b.f.set(func() { b.f.watchErr = fmt.Errorf("events: %w", device.ErrNotSupported) })
		b.event(device.Event{})
		b.pass(time.Hour)
		b.want("GPU-a", health.Healthy) // no events is not the device's fault
	})
}

func TestDriverHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, nil)
		defer b.stop()
		wake := make(chan struct{})
		b.f.set(func() {
			b.f.sample = func(context.Context) ([]device.Sample, error) { // ignores its deadline
				<-wake
				return fine(), nil
			}
		})
		b.pass(time.Minute)
		b.want("GPU-a", health.Degraded)
		if b.m.DriverAnswers() {
			t.Error("the driver answers")
		}
		b.pass(11 * time.Minute)
		b.want("MIG-2", health.Failed)
		if b.f.most != 1 {
			t.Errorf("%d calls at the same time", b.f.most)
		}
		if r := b.m.Readings()[0]; !errors.Is(r.Err, device.ErrTimeout) || r.Sample.Values[device.Temperature] != 40 {
			t.Errorf("reading: %+v", r)
		}
		close(wake)
		b.pass(20 * time.Minute)
		b.want("GPU-a", health.Healthy)
	})
}

func TestOneDeviceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, nil)
		defer b.stop()
		s := fine()
		s[0] = device.Sample{UUID: "GPU-a", Err: fmt.Errorf("GPU is lost: %w", device.ErrNotFound)}
		b.f.set(func() { b.f.sample = always(s) })
		b.pass(10 * time.Second)
		b.want("GPU-a", health.Failed)
		b.want("GPU-b", health.Healthy)
		mute := fine()
		mute[0].Err = errors.New("unknown error")
		b.f.set(func() { b.f.sample = always(mute) })
		b.pass(time.Hour)
		b.want("GPU-a", health.Failed)
		b.f.set(func() { b.f.sample = always(fine()) })
		b.pass(29 * time.Minute)
		b.want("GPU-a", health.Failed)
		b.pass(2 * time.Minute)
		b.want("GPU-a", health.Healthy)
	})
}

func TestInventoryChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, nil)
		defer b.stop()
		inv := inventory()
		inv.Devices = inv.Devices[1:]
		b.m.SetInventory(inv)
		b.want("GPU-a", health.Failed)
		b.told("GPU-a Healthy->Failed OffTheBus")
		inv = inventory()
		inv.Devices[0].UUID = "GPU-new"
		b.m.SetInventory(inv)
		if _, ok := b.m.Status("GPU-a"); ok {
			t.Error("a replaced device is still known")
		}
		b.want("GPU-new", health.Healthy)
		inv.Devices[1].MIG.Instances[0].UUID = "MIG-9"
		b.event(xid("GPU-b", 1, 94))
		b.want("MIG-1", health.Suspect)
		b.m.SetInventory(inv)
		b.want("MIG-9", health.Healthy) // a new instance in the same place
	})
}

func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var claimed atomic.Int32
		var held atomic.Bool
		held.Store(true)
		reports := make(chan ResetReport, 10)
		b := run(t, func(o *Options) {
			o.Reset = true
			o.Claim = func(uuid string) (func(), bool) {
				if uuid != "GPU-a" {
					t.Errorf("claimed %s", uuid)
				}
				claimed.Add(1)
				return func() { claimed.Store(-1) }, !held.Load()
			}
			o.OnReset = func(r ResetReport) { reports <- r }
		})
		defer b.stop()
		s := fine()
		s[0].Recovery = device.RecoveryReset
		s[0].Processes = []device.Process{{PID: 1}}
		b.f.set(func() {
			b.f.sample = always(s)
			b.f.reset = func(string) error { b.f.sample = always(fine()); return nil }
		})
		b.pass(time.Minute)
		b.want("GPU-a", health.Degraded)
		if b.f.resetCount() != 0 || claimed.Load() != 0 {
			t.Fatal("a device with a process was reset or claimed")
		}
		idle := fine()
		idle[0].Recovery = device.RecoveryReset
		b.f.set(func() { b.f.sample = always(idle) })
		b.pass(time.Minute)
		if b.f.resetCount() != 0 || claimed.Load() == 0 {
			t.Fatalf("held device: %d resets, %d claims", b.f.resetCount(), claimed.Load())
		}
		held.Store(false)
		b.pass(15 * time.Second)
		if b.f.resetCount() != 1 || claimed.Load() != -1 {
			t.Fatalf("%d resets, claim %d", b.f.resetCount(), claimed.Load())
		}
		if r := <-reports; len(reports) != 0 || r.Err != nil || r.UUID != "GPU-a" || r.For.Code != health.ResetRequired {
			t.Fatalf("report: %+v", r)
		}
		b.want("GPU-a", health.Degraded) // quiet time
		b.pass(11 * time.Minute)
		b.want("GPU-a", health.Healthy)
	})
}

func TestResetThatDoesNotHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := make(chan ResetReport, 100)
		b := run(t, func(o *Options) {
			o.Reset = true
			o.Claim = func(string) (func(), bool) { return func() {}, true }
			o.OnReset = func(r ResetReport) { reports <- r }
		})
		defer b.stop()
		s := fine()
		s[0].Recovery = device.RecoveryReset
		b.f.set(func() { b.f.sample = always(s); b.f.reset = func(string) error { return nil } })
		b.pass(24 * time.Hour)
		if n := b.f.resetCount(); n < 5 || n > 12 {
			t.Errorf("%d resets in a day", n)
		}
		for len(reports) > 0 {
			if r := <-reports; r.Err == nil || !strings.Contains(r.Err.Error(), "still needs a reset after it: the driver asks for a reset") {
				t.Fatalf("report: %v", r.Err)
			}
		}
		before := b.f.resetCount()
		b.f.set(func() { b.f.reset = func(string) error { return fmt.Errorf("reset: %w", device.ErrNotSupported) } })
		b.pass(24 * time.Hour)
		if n := b.f.resetCount() - before; n != 1 {
			t.Errorf("%d resets of hardware that cannot", n)
		}
	})
}

func TestNoResetUnlessAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, nil)
		defer b.stop()
		s := fine()
		s[0].Recovery = device.RecoveryReset
		b.f.set(func() { b.f.sample = always(s) })
		b.pass(time.Hour)
		if b.f.resetCount() != 0 {
			t.Error("reset without permission")
		}
	})
	if _, err := New(Options{Backend: &fake{}, Reset: true}); err == nil {
		t.Error("Reset without Claim was accepted")
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no back end was accepted")
	}
	if _, err := New(Options{Backend: &fake{}, Rules: &health.Options{}}); err == nil {
		t.Error("invalid rules were accepted")
	}
}

func TestRestartOfAgentAndNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, func(o *Options) { o.Boot = "one" })
		s := fine()
		s[0].Recovery = device.RecoveryUnknown
		b.f.set(func() { b.f.sample = always(s) })
		b.event(xid("GPU-a", -1, 95))
		saved, err := b.m.Save()
		if err != nil {
			t.Fatal(err)
		}
		b.stop()
		for boot, want := range map[string]health.State{"one": health.Degraded, "two": health.Healthy} {
			again := run(t, func(o *Options) {
				o.Boot, o.Saved = boot, saved
				o.Backend.(*fake).sample = always(s)
			})
			again.pass(time.Hour)
			again.want("GPU-a", want)
			again.stop()
		}
		damaged := run(t, func(o *Options) { o.Saved = []byte(`{"devices": {"GPU-a": 7}}`) })
		damaged.want("GPU-a", health.Healthy)
		damaged.stop()
	})
}

func TestMeasured(t *testing.T) {
	d := inventory().Devices[0]
	s := &device.Sample{Throttle: []string{"sw-power-cap"}, Values: map[device.Field]float64{device.Temperature: -4, device.RemapFailed: 1, device.Energy: 1e300, device.NVLinksActive: 18, device.PCIeLanes: 8}}
	want := health.Blank()
	want.Verdict, want.HardwareThrottle, want.RemapFailed, want.Links, want.Lanes, want.MaxLanes = health.VerdictNone, 0, 1, 18, 8, 16
	if diff := cmp.Diff(want, measured(s, &d)); diff != "" {
		t.Error(diff)
	}
	d.MIG = &device.MIG{Enabled: true}
	s.Throttle = append(s.Throttle, "hw-thermal-slowdown")
	if got := measured(s, &d); got.Links != health.Unknown || got.HardwareThrottle != 1 {
		t.Errorf("%+v", got)
	}
}

// BenchmarkObserve is what one sample of 8 devices costs besides the driver.
func BenchmarkObserve(b *testing.B) {
	inv := &device.Inventory{}
	var samples []device.Sample
	for i := range 8 {
		uuid := fmt.Sprintf("GPU-%d", i)
		inv.Devices = append(inv.Devices, device.Device{Index: i, UUID: uuid, PCIeWidth: 16})
		s := device.Sample{UUID: uuid, Values: map[device.Field]float64{}}
		for _, f := range device.Fields() {
			s.Values[f] = 0
		}
		samples = append(samples, s)
	}
	m, err := New(Options{Backend: &fake{sample: always(samples)}})
	if err != nil {
		b.Fatal(err)
	}
	m.SetInventory(inv)
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(b.Context())
	}
}
