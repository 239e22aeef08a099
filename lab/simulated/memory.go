package simulated

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// cuts is how a device is cut, as a file keeps it, by the device's UUID.
type cuts struct {
	Enabled   bool              `json:"enabled"`
	Instances []device.Instance `json:"instances,omitempty"`
}

func (n *node) memoryFile() string { return filepath.Join(n.options.Memory, n.name+".json") }

// keep writes the node's cuts, as hardware would keep them over an agent's restart. If
// they cannot be written, undo puts back what was, and nothing has happened.
func (n *node) keep(undo func()) error {
	if n.options.Memory == "" {
		return nil
	}
	all := map[string]cuts{}
	for _, g := range n.gpus {
		if g.cut {
			all[g.UUID] = cuts{Enabled: true, Instances: g.instances}
		}
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		temporary := n.memoryFile() + ".new"
		if err = os.WriteFile(temporary, data, 0o600); err == nil {
			err = os.Rename(temporary, n.memoryFile())
		}
	}
	if err != nil {
		undo()
		return fmt.Errorf("keep MIG instances: %w", err)
	}
	return nil
}

// remember reads what keep wrote. Cuts of devices that the fleet no longer has are
// forgotten; impossible ones are an error.
func (n *node) remember() error {
	if n.options.Memory == "" {
		return nil
	}
	if err := os.MkdirAll(n.options.Memory, 0o700); err != nil {
		return err
	}
	data, err := os.ReadFile(n.memoryFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var all map[string]cuts
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("%s: %w", n.memoryFile(), err)
	}
	for _, g := range n.gpus {
		kept, ok := all[g.UUID]
		if !ok {
			continue
		}
		g.cut = kept.Enabled && g.MIG != nil
		for _, i := range kept.Instances {
			p := g.profile(i.ProfileID)
			err := g.admits(p, i.ProfileID, i.Start)
			if err == nil && slices.ContainsFunc(g.instances, func(o device.Instance) bool { return o.GPUInstance == i.GPUInstance }) {
				err = fmt.Errorf("GPU instance %d is listed twice", i.GPUInstance)
			}
			if err != nil {
				return fmt.Errorf("%s: %s: %w", n.memoryFile(), g.UUID, err)
			}
			i.Profile, i.Size, i.MemoryMiB = p.Name, p.Size, p.MemoryMiB
			i.UUID = instanceUUID(g.UUID, i)
			g.instances = append(g.instances, i)
		}
	}
	return nil
}
