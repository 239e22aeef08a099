package health

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/tangram-dev/tangram/core/health"
)

// savedFile is what the agent keeps over a restart.
type savedFile struct {
	// Boot is the boot in which it was saved.
	Boot    string                  `json:"boot"`
	Devices map[string]health.Saved `json:"devices"`
}

// Save is what New needs to go on after a restart of the agent.
func (m *Monitor) Save() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := savedFile{Boot: m.o.Boot, Devices: map[string]health.Saved{}}
	// Devices that the driver has not shown since the restart may still come.
	if m.restored.Boot == f.Boot {
		maps.Copy(f.Devices, m.restored.Devices)
	}
	for uuid, t := range m.devices {
		f.Devices[uuid] = t.state.Saved()
	}
	return json.Marshal(f)
}

// decodeSaved reads what Save wrote. What cannot be read is nothing: the devices begin
// healthy, and samples show what is wrong with them.
func decodeSaved(text []byte) (f savedFile) {
	if len(text) == 0 || json.Unmarshal(text, &f) != nil {
		return savedFile{}
	}
	return f
}

// restore is a device's state machine, as it was saved or new.
func (m *Monitor) restore(uuid string, now time.Time) *health.Device {
	s, ok := m.restored.Devices[uuid]
	if !ok {
		return health.New(&m.rules)
	}
	delete(m.restored.Devices, uuid)
	d := health.Restore(&m.rules, s, now)
	if m.watched {
		d.Event(now, health.Event{Kind: health.WatchedEvent})
	}
	if m.restored.Boot != m.o.Boot {
		d.Event(now, health.Event{Kind: health.RebootEvent})
	}
	return d
}
