package mig

import (
	"slices"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// state is what is known of an own instance besides its entry in the journal. It is
// lost with the process.
type state struct {
	// unwanted: since when no allocation uses it; zero while one does, or before
	// the first Collect.
	unwanted time.Time
	// told: a log line said that it is busy.
	told bool
}

// patience is how long a creation that timed out may still end in an instance. It is
// meant for a driver that hangs; one that hangs longer needs a reboot anyway.
const patience = 5 * time.Minute

// find returns the position of the own instance that an existing one is, or -1.
func (m *Manager) find(gpu string, instance device.Instance) int {
	return slices.IndexFunc(m.journal.Instances, func(o owned) bool {
		return !o.Creating && o.GPU == gpu && o.GPUInstance == instance.GPUInstance &&
			o.Start == instance.Start && o.ProfileID == instance.ProfileID &&
			// Without a compute instance the UUID is empty, but the GPU instance is
			// still the agent's own.
			(o.UUID == instance.UUID || instance.UUID == "")
	})
}

// observe brings the journal in line with what exists: what is gone is forgotten, and an
// instance whose creation was not seen to its end is taken over. It reports whether the
// journal changed. A device that is absent or says nothing about MIG changes nothing:
// the driver may be unable to tell at the moment.
func (m *Manager) observe(inventory *device.Inventory) bool {
	changed := false
	kept := m.journal.Instances[:0:0]
	for _, entry := range m.journal.Instances {
		d := inventory.Find(entry.GPU)
		if d == nil || d.MIG == nil {
			kept = append(kept, entry)
			continue
		}
		now, exists := entry.observed(d.MIG)
		if !exists && entry.Creating && m.options.Now().Sub(m.asked[entry.placement()]) < patience {
			kept = append(kept, entry)
			continue
		}
		if !exists {
			m.options.Log.Info("MIG instance no longer exists", "placement", entry.placement().String(), "uuid", entry.UUID)
			delete(m.states, entry.placement())
			delete(m.asked, entry.placement())
			changed = true
			continue
		}
		changed = changed || now != entry
		kept = append(kept, now)
	}
	m.journal.Instances = kept
	modes := slices.DeleteFunc(slices.Clone(m.journal.Modes), func(gpu string) bool {
		d := inventory.Find(gpu)
		return d != nil && d.MIG != nil && !d.MIG.Enabled
	})
	changed = changed || len(modes) != len(m.journal.Modes)
	m.journal.Modes = modes
	return changed
}

// observed is the entry as it exists now.
func (o owned) observed(mig *device.MIG) (owned, bool) {
	for _, instance := range mig.Instances {
		if instance.Start != o.Start || instance.ProfileID != o.ProfileID {
			continue
		}
		if o.Creating {
			o.Creating, o.GPUInstance, o.UUID = false, instance.GPUInstance, instance.UUID
			return o, true
		}
		if instance.GPUInstance == o.GPUInstance && (instance.UUID == o.UUID || instance.UUID == "") {
			return o, true
		}
	}
	return o, false
}

// forget removes an entry of the journal.
func (m *Manager) forget(entry owned) {
	m.journal.Instances = slices.DeleteFunc(m.journal.Instances, func(o owned) bool { return o == entry })
	delete(m.states, entry.placement())
	delete(m.asked, entry.placement())
}
