package hami

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// The contract's names. Containers find the library and the shared region under
// containerDir wherever the node has them.
const (
	library       = "libvgpu.so"
	preload       = "ld.so.preload"
	containerDir  = "/usr/local/vgpu"
	containerLock = "/tmp/vgpulock"
)

// Options are the settings.
type Options struct {
	// LibraryDir is the folder of the node with libvgpu.so and ld.so.preload.
	LibraryDir string
	// CacheDir is the folder of the node in which each container gets a folder for the
	// region that its processes share.
	CacheDir string
	// LockDir is a folder of the node by which all containers' processes take turns at
	// starting; default /tmp/vgpulock, which HAMi's own plugin uses.
	LockDir string
}

// Limiter gives containers their limits.
type Limiter struct{ options Options }

// Limit is what a container was promised of one of its GPUs.
type Limit struct {
	MemoryMiB    int64 // 0 for no limit
	ComputeMilli int   // thousandths of the GPU, 0 for no limit
}

// New checks that the library is installed. Errors name the field.
func New(options Options) (*Limiter, error) {
	options.LockDir = cmp.Or(options.LockDir, containerLock)
	for field, dir := range map[string]string{"libraryDir": options.LibraryDir, "cacheDir": options.CacheDir, "lockDir": options.LockDir} {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("hami.%s: must be an absolute path, is %q", field, dir)
		}
	}
	for _, name := range []string{library, preload} {
		path := filepath.Join(options.LibraryDir, name)
		if info, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("hami.libraryDir: HAMi-core is not installed: %w", err)
		} else if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("hami.libraryDir: HAMi-core is not installed: %s is no file", path)
		}
	}
	return &Limiter{options}, nil
}

// Edits make the folder of a container and return what limits it; limits are in the
// order in which the container sees its GPUs.
func (l *Limiter) Edits(a device.Allocation, limits []Limit) (device.Edits, error) {
	dir, err := l.folder(a)
	if err != nil {
		return device.Edits{}, err
	}
	for _, path := range []string{dir, l.options.LockDir} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return device.Edits{}, fmt.Errorf("HAMi-core's folder of %s: %w", a.Container, err)
		}
		// Processes of every user of the container write there, whatever the umask.
		if err := os.Chmod(path, 0o777|os.ModeSticky); err != nil {
			return device.Edits{}, fmt.Errorf("HAMi-core's folder of %s: %w", a.Container, err)
		}
	}
	out := device.Edits{
		Env: []string{
			// One region for all of the allocation's processes, also after a restart of
			// the container: the library counts what each of them holds there.
			"CUDA_DEVICE_MEMORY_SHARED_CACHE=" + filepath.Join(containerDir, a.ID+".cache"),
			// A container that is alone on its GPU keeps to its limit, too: what it was
			// promised is what it gets.
			"GPU_CORE_UTILIZATION_POLICY=force",
		},
		Mounts: []device.Mount{
			{HostPath: dir, ContainerPath: containerDir, Options: []string{"rw", "nosuid", "nodev", "rbind"}},
			{HostPath: l.options.LockDir, ContainerPath: containerLock, Options: []string{"rw", "nosuid", "nodev", "rbind"}},
			{HostPath: filepath.Join(l.options.LibraryDir, library), ContainerPath: filepath.Join(containerDir, library),
				Options: []string{"ro", "nosuid", "nodev", "rbind"}},
			{HostPath: filepath.Join(l.options.LibraryDir, preload), ContainerPath: "/etc/" + preload,
				Options: []string{"ro", "nosuid", "nodev", "rbind"}},
		},
	}
	for i, limit := range limits {
		if limit.MemoryMiB < 0 || limit.ComputeMilli < 0 || limit.ComputeMilli > 1000 {
			return device.Edits{}, fmt.Errorf("HAMi-core's limits of %s: device %d: %d MiB and %d thousandths of compute", a.Container, i, limit.MemoryMiB, limit.ComputeMilli)
		}
		if limit.MemoryMiB > 0 {
			out.Env = append(out.Env, fmt.Sprintf("CUDA_DEVICE_MEMORY_LIMIT_%d=%dm", i, limit.MemoryMiB))
		}
		if limit.ComputeMilli > 0 {
			// The library knows whole percents, and 0 would be no limit.
			percent := max(limit.ComputeMilli/10, 1)
			if i == 0 {
				out.Env = append(out.Env, fmt.Sprintf("CUDA_DEVICE_SM_LIMIT=%d", percent))
			}
			out.Env = append(out.Env, fmt.Sprintf("CUDA_DEVICE_SM_LIMIT_%d=%d", i, percent))
		}
	}
	return out, nil
}

// Collect removes the folders of containers that are not among the live allocations.
func (l *Limiter) Collect(live []device.Allocation) error {
	keep := map[string]bool{}
	for _, a := range live {
		if dir, err := l.folder(a); err == nil {
			keep[filepath.Base(dir)] = true
		}
	}
	entries, err := os.ReadDir(l.options.CacheDir)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("HAMi-core's folders: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		// Only names of our form: <pod UID>_<container>.
		if !keep[entry.Name()] && strings.Contains(entry.Name(), "_") && entry.IsDir() {
			errs = append(errs, os.RemoveAll(filepath.Join(l.options.CacheDir, entry.Name())))
		}
	}
	return errors.Join(errs...)
}

// folder is a container's, named as HAMi's monitor expects it.
func (l *Limiter) folder(a device.Allocation) (string, error) {
	name := a.PodUID + "_" + a.Container
	if a.PodUID == "" || a.Container == "" || a.ID == "" || strings.ContainsAny(name+a.ID, "/\x00") || strings.HasPrefix(name, ".") {
		return "", fmt.Errorf("HAMi-core's folder: pod UID %q, container %q and allocation %q do not name one", a.PodUID, a.Container, a.ID)
	}
	return filepath.Join(l.options.CacheDir, name), nil
}
