package dra

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/sharing/atomicfile"
)

// journalVersion changes when an existing field changes its meaning.
const journalVersion = 1

// journal is the claims that are prepared, as a file keeps them over a restart of the
// agent. A claim is written before anything is done for it, and removed after all was
// undone.
type journal struct {
	Version int     `json:"version"`
	Claims  []Claim `json:"claims"`
}

// stamp tells one writing of a file from another: each is a new file.
type stamp struct {
	inode uint64
	at    time.Time
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	out := stamp{at: info.ModTime()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		out.inode = s.Ino
	}
	return out
}

// load reads the journal. A file that cannot be understood stops the agent: devices that
// the agent does not remember would be given twice.
func load(path string) (journal, error) {
	if err := atomicfile.Sweep(filepath.Dir(path)); err != nil {
		return journal{}, fmt.Errorf("journal of claims: %w", err)
	}
	return readJournal(path)
}

func readJournal(path string) (journal, error) {
	out := journal{Version: journalVersion}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return out, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err == nil && out.Version != journalVersion {
		err = fmt.Errorf("version: %d is not known, want %d", out.Version, journalVersion)
	}
	if err != nil {
		return out, fmt.Errorf("journal of claims %s: %w; drain the node and remove the file", path, err)
	}
	return out, nil
}

func (j *journal) save(path string) error {
	slices.SortFunc(j.Claims, func(a, b Claim) int { return cmp.Compare(a.UID, b.UID) })
	data, err := json.MarshalIndent(j, "", "  ")
	if err == nil {
		err = atomicfile.Write(path, data, 0o600, nil)
	}
	if err != nil {
		return fmt.Errorf("journal of claims: %w", err)
	}
	return nil
}

// find is the position of a claim, or -1.
func (j *journal) find(uid string) int {
	return slices.IndexFunc(j.Claims, func(c Claim) bool { return c.UID == uid })
}
