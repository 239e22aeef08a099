//go:build cgo && linux

package nvml

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Edits implements device.Backend: the device nodes of the given devices and MIG
// instances, the driver's own nodes, libraries and programs. It forbids NVIDIA's container
// runtime to add any by NVIDIA_VISIBLE_DEVICES=void.
func (b *Backend) Edits(ctx context.Context, uuids []string) (device.Edits, error) {
	inv, err := b.Inventory(ctx)
	if err != nil {
		return device.Edits{}, err
	}
	edits := device.Edits{Env: []string{"NVIDIA_VISIBLE_DEVICES=void"}}
	paths := []string{"/dev/nvidiactl", "/dev/nvidia-uvm"}
	optional := []string{"/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}
	for _, n := range b.options.IMEXChannels {
		optional = append(optional, IMEXPath(n))
	}
	for _, extra := range optional {
		if _, err := os.Stat(filepath.Join(b.options.DevRoot, extra)); err == nil {
			paths = append(paths, extra)
		}
	}
	for _, uuid := range uuids {
		d, instance := inv.Find(uuid), (*device.Instance)(nil)
		if d == nil {
			if d, instance = inv.Parent(uuid); d == nil {
				return device.Edits{}, fmt.Errorf("nvml: edits for %q: %w", uuid, device.ErrNotFound)
			}
			caps, err := b.capabilities(d.Minor, instance)
			if err != nil {
				return device.Edits{}, fmt.Errorf("nvml: edits for %s: %w", uuid, err)
			}
			paths = append(paths, caps...)
		}
		paths = append(paths, fmt.Sprintf("/dev/nvidia%d", d.Minor))
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		host := filepath.Join(b.options.DevRoot, path)
		if _, err := os.Stat(host); err != nil {
			return device.Edits{}, fmt.Errorf("nvml: device node (nvidia-modprobe -u -c 0 makes those of the driver): %w: %w", device.ErrNotFound, err)
		}
		edits.Nodes = append(edits.Nodes, device.Node{Path: path, HostPath: host, Permissions: "rw"})
	}

	files := driverFiles{root: b.options.DriverRootHere}
	libraries, err := files.libraries(inv.Driver)
	if err != nil {
		return device.Edits{}, fmt.Errorf("nvml: %w", err)
	}
	folders := map[string]bool{}
	for _, f := range append(libraries, files.programs()...) {
		edits.Mounts = append(edits.Mounts, device.Mount{HostPath: filepath.Join(b.options.DriverRoot, f.path), ContainerPath: f.as,
			Options: []string{"ro", "nosuid", "nodev", "rbind", "rprivate"}})
		if f.library {
			folders[filepath.Dir(f.as)] = true
		}
	}
	slices.SortFunc(edits.Mounts, func(x, y device.Mount) int { return cmp.Compare(x.ContainerPath, y.ContainerPath) })
	if hook := b.hook(); hook != "" {
		args := []string{"nvidia-cdi-hook", "update-ldcache"}
		for _, folder := range slices.Sorted(maps.Keys(folders)) {
			args = append(args, "--folder", folder)
		}
		edits.Hooks = append(edits.Hooks, device.Hook{Name: "createContainer", Path: hook, Args: args})
	}
	return edits, nil
}

// hook is the path of NVIDIA's hook on the node; empty when there is none.
func (b *Backend) hook() string {
	if b.options.CDIHook != "" || b.options.DriverRoot != "/" {
		return b.options.CDIHook
	}
	for _, path := range []string{"/usr/bin/nvidia-cdi-hook", "/usr/local/nvidia/toolkit/nvidia-cdi-hook"} {
		if _, err := os.Stat(filepath.Join(b.options.DriverRootHere, path)); err == nil {
			return path
		}
	}
	return ""
}

// capabilities are the nodes that give access to a MIG instance: one for the GPU
// instance, one for the compute instance. Nodes that are missing are made.
func (b *Backend) capabilities(minor int, instance *device.Instance) ([]string, error) {
	gi := fmt.Sprintf("gpu%d/gi%d", minor, instance.GPUInstance)
	var out []string
	for _, name := range []string{gi + "/access", fmt.Sprintf("%s/ci%d/access", gi, instance.ComputeInstance)} {
		number, err := lookup(filepath.Join(b.options.ProcRoot, "driver/nvidia-caps/mig-minors"), name)
		if err != nil {
			return nil, fmt.Errorf("capability %s: %w", name, err)
		}
		path := fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", number)
		if err := b.makeCapability(path, number); err != nil {
			return nil, err
		}
		out = append(out, path)
	}
	return out, nil
}

// makeCapability makes a capability's device node if it is missing.
func (b *Backend) makeCapability(path string, minor int) error {
	host := filepath.Join(b.options.DevRoot, path)
	if _, err := os.Stat(host); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	major, err := lookup(filepath.Join(b.options.ProcRoot, "devices"), "nvidia-caps")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(host), 0o755); err != nil {
		return err
	}
	if err := syscall.Mknod(host, syscall.S_IFCHR|0o444, deviceNumber(major, minor)); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make %s: %w", host, err)
	}
	return nil
}

// deviceNumber is the kernel's encoding of a device's numbers.
func deviceNumber(major, minor int) int {
	return minor&0xff | major&0xfff<<8 | minor&^0xff<<12 | major&^0xfff<<32
}

// lookup finds the number that stands on one line with a word, before or after it.
func lookup(path, word string) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 2 {
			continue
		}
		for i, other := range []int{1, 0} {
			if fields[i] == word {
				n, err := strconv.Atoi(fields[other])
				if err != nil {
					return 0, fmt.Errorf("%s: line %q: %w", path, lines.Text(), err)
				}
				return n, nil
			}
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("%s says nothing of %s: %w", path, word, device.ErrNotFound)
}
