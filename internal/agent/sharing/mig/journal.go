package mig

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/sharing/atomicfile"
)

// journalVersion changes when an existing field changes its meaning.
const journalVersion = 1

// journal is the file's content. Its fields are part of the agent's format on disk: an
// agent of another version reads them.
type journal struct {
	Version int `json:"version"`
	// Boot is the boot that the instances belong to; none outlives it. GPU instance ids
	// and even UUIDs are given again after a reboot, so without it an instance of
	// another program could look like an old one of ours.
	Boot      string  `json:"boot"`
	Instances []owned `json:"instances"`
	// Modes are the devices whose MIG mode the agent turned on. On some hardware the
	// mode outlives a reboot, so these do too.
	Modes []string `json:"modes"`
}

// owned is an instance that the agent made, or was making.
type owned struct {
	GPU         string `json:"gpu"`
	Profile     string `json:"profile"`
	ProfileID   int    `json:"profileID"`
	Start       int    `json:"start"`
	GPUInstance int    `json:"gpuInstance"`
	UUID        string `json:"uuid,omitempty"`
	// Creating: the driver was asked for it and the answer is not known. GPUInstance
	// and UUID are not set.
	Creating bool `json:"creating,omitempty"`
}

func (o owned) placement() Placement { return Placement{o.GPU, o.Profile, o.Start} }

// compareOwned orders the file, so that the same state is the same bytes.
func compareOwned(a, b owned) int {
	return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Start, b.Start),
		cmp.Compare(a.ProfileID, b.ProfileID), cmp.Compare(a.GPUInstance, b.GPUInstance))
}

// load reads the journal. A file that cannot be understood is kept aside and the agent
// begins without one: then its old instances count as foreign and stay until an operator
// removes them, which is safe. aside is where it is kept, empty when all is well.
func load(path string) (content journal, aside string, err error) {
	if err := atomicfile.Sweep(filepath.Dir(path)); err != nil {
		return journal{}, "", fmt.Errorf("MIG journal: %w", err)
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return journal{Version: journalVersion}, "", nil
	}
	if err != nil {
		return journal{}, "", fmt.Errorf("MIG journal: %w", err)
	}
	if err := json.Unmarshal(data, &content); err == nil && content.Version == journalVersion {
		return content, "", nil
	}
	aside = path + ".unreadable"
	if err := os.Rename(path, aside); err != nil {
		return journal{}, "", fmt.Errorf("MIG journal: %w", err)
	}
	return journal{Version: journalVersion}, aside, nil
}

// save writes the journal.
func (j *journal) save(path string) error {
	slices.SortFunc(j.Instances, compareOwned)
	slices.Sort(j.Modes)
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("MIG journal: %w", err)
	}
	if err := atomicfile.Write(path, data, 0o600, nil); err != nil {
		return fmt.Errorf("MIG journal: %w", err)
	}
	return nil
}

// bootID is the kernel's name for the time since it started.
func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

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
