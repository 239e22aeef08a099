package health

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tangram-dev/tangram/core/health"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Options are what a monitor works with. Functions may be called at any time, from
// several goroutines, and must return soon; nil ones are not called.
type Options struct {
	Backend device.Backend
	// Rules are those of core/health; nil for the defaults.
	Rules *health.Options
	// SampleEvery is the time between samples, 10 s when 0; CallTimeout how long one may
	// take, 10 s when 0.
	SampleEvery, CallTimeout time.Duration
	// Tenants are the namespaces that use a device, or an instance of it (-1 for the whole),
	// at the moment. An application error is held against a device only when it
	// happens to several of them.
	Tenants func(uuid string, gpuInstance int) []string
	// OnChange is told about each change, in their order, one at a time.
	OnChange func(Change)
	// OnCall is told about each call of the back end.
	OnCall func(call string, err error, took time.Duration)
	// Reset: reset devices that need it and that are idle. Claim must be given then:
	// it takes a device out of the hands of the device plugin until release is called,
	// or says that a container holds it.
	Reset bool
	Claim func(uuid string) (release func(), ok bool)
	// OnReset is told about each reset.
	OnReset func(ResetReport)
	// Saved is what Save returned before the agent was restarted; Boot names the node's
	// present boot (the kernel's boot_id): what was saved in another one has seen a
	// reboot since.
	Saved []byte
	Boot  string
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Change is a change of a device's health, or of one MIG instance's.
type Change struct {
	// UUID is the physical device; Instance the MIG instance, when it is about that
	// alone, else empty.
	UUID, Instance string
	Index          int
	From, To       health.Status
}

// Reading is the last that is known of a device.
type Reading struct {
	Device device.Device
	Health health.Status
	// Sample is the last one that the device answered; its At is zero when there was
	// none. Its LastXID is filled in.
	Sample device.Sample
	// Err is why the device did not answer since; nil when it did.
	Err error
	// XIDs counts the driver's errors since the agent started, RecentXIDs those within
	// XIDWindow, by number.
	XIDs, RecentXIDs map[int]uint64
}

// Monitor keeps the health of a node's devices. All methods may be called at any time.
type Monitor struct {
	o     Options
	rules health.Options

	mu       sync.Mutex
	devices  map[string]*tracked
	restored savedFile // not yet claimed by a device
	asked    bool      // for a sample, ever
	answers  bool      // the last sample was answered
	watched  bool
	changes  []Change
	telling  bool

	poked     chan struct{}
	watchRun  atomic.Int64 // counts beginnings and ends of calls of Watch
	sampling  atomic.Bool
	resetting sync.WaitGroup
}

// tracked is one device.
type tracked struct {
	device    device.Device
	missing   bool // no longer in the inventory
	state     *health.Device
	told      health.Status
	instances map[int]*instance // by GPU instance id
	sample    device.Sample
	err       error
	lastXID   int
	xids      map[int]*xidCount
	reset     resetState
}

// instance is one MIG instance.
type instance struct {
	uuid  string
	start int
	state *health.Device
	told  health.Status
}

// New makes a monitor that knows no devices yet; give it the inventory, then call Run.
func New(o Options) (*Monitor, error) {
	m := &Monitor{o: o, rules: health.Defaults(), devices: map[string]*tracked{}, watched: true, poked: make(chan struct{}, 1)}
	if o.Rules != nil {
		m.rules = *o.Rules
	}
	if err := m.rules.Validate(); err != nil {
		return nil, err
	}
	if o.Backend == nil {
		return nil, errors.New("health: no back end")
	}
	if o.Reset && o.Claim == nil {
		return nil, errors.New("health: Reset without Claim: whether a device is in use cannot be asked")
	}
	m.o.SampleEvery = cmp.Or(o.SampleEvery, 10*time.Second)
	m.o.CallTimeout = cmp.Or(o.CallTimeout, 10*time.Second)
	if m.o.Now == nil {
		m.o.Now = time.Now
	}
	m.restored = decodeSaved(o.Saved)
	return m, nil
}

// SetInventory says which devices there are. A device that is no longer listed is kept
// as lost, unless another one sits in its place.
func (m *Monitor) SetInventory(inv *device.Inventory) {
	now := m.o.Now()
	m.mu.Lock()
	for _, t := range m.devices {
		t.missing = true
	}
	for _, d := range inv.Devices {
		t := m.devices[d.UUID]
		if t == nil {
			t = &tracked{state: m.restore(d.UUID, now), instances: map[int]*instance{}, xids: map[int]*xidCount{}}
			if !m.watched {
				t.state.Event(now, health.Event{Kind: health.UnwatchedEvent})
			}
			m.devices[d.UUID] = t
		}
		t.device, t.missing = d, false
		m.setInstances(t)
	}
	for uuid, t := range m.devices {
		if !t.missing {
			continue
		}
		replaced := slices.ContainsFunc(inv.Devices, func(d device.Device) bool {
			return d.Index == t.device.Index || d.PCIBusID != "" && d.PCIBusID == t.device.PCIBusID
		})
		if replaced {
			delete(m.devices, uuid)
		} else {
			t.state.Event(now, health.Event{Kind: health.LostEvent})
		}
	}
	m.collect()
	m.mu.Unlock()
	m.tell()
}

// setInstances forgets instances that are gone and begins with new ones.
func (m *Monitor) setInstances(t *tracked) {
	known := map[int]bool{}
	if t.device.MIG != nil {
		for _, i := range t.device.MIG.Instances {
			known[i.GPUInstance] = true
			if old := t.instances[i.GPUInstance]; old == nil || old.uuid != i.UUID {
				t.instances[i.GPUInstance] = &instance{uuid: i.UUID, start: i.Start, state: health.New(&m.rules)}
			}
		}
	}
	maps.DeleteFunc(t.instances, func(id int, _ *instance) bool { return !known[id] })
}

// Status is the health behind a name that is sold: a device's UUID, a turn of it
// (UUID::n), a place for a MIG instance on it (UUID::mig-profile@start), or a MIG
// instance's UUID. False when there is no such device.
func (m *Monitor) Status(id string) (health.Status, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	uuid, part, _ := strings.Cut(id, "::")
	if t := m.devices[uuid]; t != nil {
		status := t.state.Status()
		if _, at, found := strings.Cut(part, "@"); found {
			start, err := strconv.Atoi(at)
			for _, i := range t.instances {
				if err == nil && i.start == start {
					status = worse(status, i.state.Status())
				}
			}
		}
		return status, true
	}
	for _, t := range m.devices {
		for _, i := range t.instances {
			if i.uuid == uuid && uuid != "" {
				return worse(t.state.Status(), i.state.Status()), true
			}
		}
	}
	return health.Status{}, false
}

// worse is the more severe of two, the first when they are equal.
func worse(a, b health.Status) health.Status {
	if b.State > a.State {
		return b
	}
	return a
}

// Readings are the devices by index, with what is known of each.
func (m *Monitor) Readings() []Reading {
	now := m.o.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Reading, 0, len(m.devices))
	for _, t := range m.devices {
		r := Reading{Device: t.device, Health: t.state.Status(), Sample: t.sample, Err: t.err,
			XIDs: make(map[int]uint64, len(t.xids)), RecentXIDs: make(map[int]uint64, len(t.xids))}
		for code, c := range t.xids {
			r.XIDs[code], r.RecentXIDs[code] = c.total, c.recent(now)
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Reading) int {
		return cmp.Or(cmp.Compare(a.Device.Index, b.Device.Index), cmp.Compare(a.Device.UUID, b.Device.UUID))
	})
	return out
}

// DriverAnswers says whether the last sample was answered.
func (m *Monitor) DriverAnswers() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answers
}

// Watched says whether events are being received.
func (m *Monitor) Watched() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watched
}

// collect queues what changed. Call it with the lock held, after each input.
func (m *Monitor) collect() {
	for _, uuid := range slices.Sorted(maps.Keys(m.devices)) {
		t := m.devices[uuid]
		if s := t.state.Status(); differ(s, t.told) {
			m.changes = append(m.changes, Change{UUID: uuid, Index: t.device.Index, From: t.told, To: s})
			t.told = s
		}
		for _, id := range slices.Sorted(maps.Keys(t.instances)) {
			i := t.instances[id]
			if s := i.state.Status(); differ(s, i.told) {
				m.changes = append(m.changes, Change{UUID: uuid, Instance: i.uuid, Index: t.device.Index, From: i.told, To: s})
				i.told = s
			}
		}
	}
}

func differ(a, b health.Status) bool {
	return a.State != b.State || a.Code != b.Code || a.Reason != b.Reason
}

// tell hands queued changes to the sink, without the lock: the sink may ask the monitor.
func (m *Monitor) tell() {
	m.mu.Lock()
	if m.telling {
		m.mu.Unlock()
		return
	}
	m.telling = true
	for len(m.changes) > 0 {
		c := m.changes[0]
		m.changes = m.changes[1:]
		m.mu.Unlock()
		if m.o.OnChange != nil {
			m.o.OnChange(c)
		}
		m.mu.Lock()
	}
	m.telling = false
	m.mu.Unlock()
}
