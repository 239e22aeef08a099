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
