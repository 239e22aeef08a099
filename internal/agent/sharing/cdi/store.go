package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	library "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/sharing/atomicfile"
)

// DefaultDir is where container runtimes look for specs that do not outlive a reboot.
const DefaultDir = "/var/run/cdi"

// The files are named prefix + ID + suffix; no other file is ever touched.
const (
	filePrefix = Vendor + "-" + Class + "_"
	fileSuffix = ".json"
)

// Store is the folder of spec files. It keeps nothing in memory: what is in the folder
// counts, also after a restart. Methods may be called at the same time for different
// allocations.
type Store struct{ dir string }

// NewStore opens a folder, creating it, and removes files that a process which died
// there had not finished.
func NewStore(dir string) (*Store, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("CDI folder %q: must be an absolute path", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("CDI folder: %w", err)
	}
	if err := atomicfile.Sweep(dir); err != nil {
		return nil, fmt.Errorf("CDI folder: %w", err)
	}
	return &Store{dir: dir}, nil
}

// Path is the file of an allocation.
func (s *Store) Path(id string) string { return filepath.Join(s.dir, filePrefix+id+fileSuffix) }

// Write makes the edits what the container of an allocation gets. Whatever fails, what
// was there before is unchanged. Writing what is already there changes nothing on disk.
func (s *Store) Write(id string, edits device.Edits) error {
	spec, err := spec(id, edits)
	if err != nil {
		return fmt.Errorf("CDI spec: %w", err)
	}
	data, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return fmt.Errorf("CDI spec of %s: %w", id, err)
	}
	if old, err := os.ReadFile(s.Path(id)); err == nil && string(old) == string(data) {
		return nil
	}
	// The library reads back what a runtime will read, with all of its checks.
	readable := func(path string) error {
		_, err := library.ReadSpec(path, 0)
		return err
	}
	// 0644: runtimes that are not root read specs too.
	if err := atomicfile.Write(s.Path(id), data, 0o644, readable); err != nil {
		return fmt.Errorf("CDI spec of %s: %w", id, err)
	}
	return nil
}

// Remove removes an allocation's file; it need not exist.
func (s *Store) Remove(id string) error {
	if err := os.Remove(s.Path(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("CDI spec of %s: %w", id, err)
	}
	return nil
}

// List returns the IDs of the allocations that have a file, sorted.
func (s *Store) List() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("CDI folder: %w", err)
	}
	var out []string
	for _, entry := range entries {
		if id, ok := strings.CutPrefix(entry.Name(), filePrefix); ok {
			if id, ok := strings.CutSuffix(id, fileSuffix); ok {
				out = append(out, id)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// Collect removes the files of all allocations but the live ones and returns the IDs it
// removed.
func (s *Store) Collect(live []string) ([]string, error) {
	present, err := s.List()
	if err != nil {
		return nil, err
	}
	var removed []string
	var errs []error
	for _, id := range present {
		if slices.Contains(live, id) {
			continue
		}
		if err := s.Remove(id); err != nil {
			errs = append(errs, err)
		} else {
			removed = append(removed, id)
		}
	}
	return removed, errors.Join(errs...)
}
