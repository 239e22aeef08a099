package simulated

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// visibleDevices keeps NVIDIA's container runtime, where one is installed, from adding
// devices of its own.
const visibleDevices = "NVIDIA_VISIBLE_DEVICES=void"

// Edits implements device.Backend. The device nodes are those of Options.DeviceNodes: a
// container sees device i as /dev/nvidia<i>, and a MIG instance as that with its two
// capability nodes. There are no libraries to mount.
func (b *backend) Edits(ctx context.Context, uuids []string) (edits device.Edits, err error) {
	err = b.call(ctx, func(n *node) error {
		edits.Env = []string{visibleDevices}
		seen := map[string]bool{}
		for _, uuid := range uuids {
			g, i, err := n.part(uuid)
			if err != nil {
				return err
			}
			nodes, err := n.deviceNodes(g, i)
			if err != nil {
				return err
			}
			for _, d := range nodes {
				if !seen[d.Path] {
					seen[d.Path] = true
					edits.Nodes = append(edits.Nodes, d)
				}
			}
		}
		return nil
	}, b.node.owners(uuids)...)
	if err != nil {
		return device.Edits{}, fmt.Errorf("edits for %d devices: %w", len(uuids), err)
	}
	return edits, nil
}

// owners are the devices that the UUIDs are of, as far as there are any: those whose
// hanging keeps the call.
func (n *node) owners(uuids []string) []*gpu {
	n.mu.Lock()
	defer n.mu.Unlock()
	var list []*gpu
	for _, uuid := range uuids {
		if g, _, err := n.part(uuid); err == nil {
			list = append(list, g)
		}
	}
	return list
}

// part returns the device, and the instance if there is one, with a UUID. It needs the
// lock.
func (n *node) part(uuid string) (*gpu, *device.Instance, error) {
	for _, g := range n.gpus {
		for i := range g.instances {
			if g.instances[i].UUID == uuid {
				return g, &g.instances[i], g.present()
			}
		}
	}
	g, err := n.find(uuid)
	if err != nil {
		return nil, nil, err
	}
	return g, nil, g.present()
}

func (g *gpu) present() error {
	if g.trouble.gone {
		return g.lost()
	}
	return nil
}

func (n *node) deviceNodes(g *gpu, i *device.Instance) ([]device.Node, error) {
	paths := n.options.DeviceNodes
	if len(paths) == 0 {
		return nil, nil
	}
	if g.Index >= len(paths) {
		return nil, fmt.Errorf("no device node for device %d: %d are given", g.Index, len(paths))
	}
	host := paths[g.Index]
	nodes := []device.Node{{Path: fmt.Sprintf("/dev/nvidia%d", g.Minor), HostPath: host}}
	if i != nil {
		access := capability(g.Minor, i.GPUInstance)
		nodes = append(nodes,
			device.Node{Path: fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", access), HostPath: host, Permissions: "r"},
			device.Node{Path: fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", access+1+i.ComputeInstance), HostPath: host, Permissions: "r"})
	}
	return nodes, nil
}

// capability is the minor number that NVIDIA's driver gives to the access right of a GPU
// instance: 1 and 2 are for configuration and monitoring, then each device has 15
// instances of 9 numbers, the instance's own and those of 8 compute instances.
func capability(minor, gpuInstance int) int { return 3 + 135*minor + 9*gpuInstance }

// ParseDeviceNodes reads the text of an option: a comma-separated list of paths, or one
// folder, whose entries are taken in the order of their names. Every path must exist.
func ParseDeviceNodes(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	paths := strings.Split(text, ",")
	if info, err := os.Stat(text); err == nil && info.IsDir() {
		entries, err := os.ReadDir(text)
		if err != nil {
			return nil, fmt.Errorf("device nodes: %w", err)
		}
		paths = nil
		for _, e := range entries {
			paths = append(paths, filepath.Join(text, e.Name()))
		}
	}
	for i, path := range paths {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("device nodes: path %d: %w", i+1, err)
		}
	}
	return paths, nil
}
