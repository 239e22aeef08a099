//go:build cgo && linux

package nvml

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// driverFiles finds the driver's libraries and programs below a folder.
type driverFiles struct{ root string }

// driverFile is one of them.
type driverFile struct {
	// path is relative to the driver's root; as is where a container finds it.
	path, as string
	library  bool
}

// libraryFolders are where distributions and installers put libraries, relative to the
// driver's root; the first that holds libcuda counts.
var libraryFolders = []string{
	"usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu",
	"usr/lib/x86_64-linux-gnu/nvidia/current", "usr/lib/aarch64-linux-gnu/nvidia/current",
	"usr/lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "usr/local/nvidia/lib64", "usr/local/nvidia/lib",
	"home/kubernetes/bin/nvidia/lib64", "opt/nvidia/lib64", "run/opengl-driver/lib",
}

var programFolders = []string{"usr/bin", "bin", "usr/local/nvidia/bin", "home/kubernetes/bin/nvidia/bin", "opt/nvidia/bin", "opt/bin"}

var programNames = []string{"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"}

// library is the path, as this process sees it, of a library.
func (d driverFiles) library(name string) (string, error) {
	for _, folder := range libraryFolders {
		path := filepath.Join(d.root, folder, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s in any of the library folders below %s: %w", name, d.root, device.ErrNotFound)
}

// libraries are those that carry the driver's version in their name, each under that
// name and under its SONAME, by which programs ask for it. Programs that were linked for
// development ask for libcuda.so.
func (d driverFiles) libraries(version string) ([]driverFile, error) {
	found, err := d.library("libcuda.so." + version)
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(found), "lib*.so."+version))
	if err != nil {
		return nil, err
	}
	var out []driverFile
	for _, path := range paths {
		relative, err := filepath.Rel(d.root, path)
		if err != nil {
			return nil, err
		}
		names := []string{filepath.Base(path)}
		if name, err := soname(path); err == nil && name != "" {
			names = append(names, filepath.Base(name))
		}
		if path == found {
			names = append(names, "libcuda.so")
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			out = append(out, driverFile{path: relative, as: filepath.Join("/", filepath.Dir(relative), name), library: true})
		}
	}
	return out, nil
}

// programs are those of the driver's that are installed.
func (d driverFiles) programs() (out []driverFile) {
	for _, name := range programNames {
		for _, folder := range programFolders {
			path := filepath.Join(folder, name)
			if info, err := os.Stat(filepath.Join(d.root, path)); err == nil && info.Mode().IsRegular() {
				out = append(out, driverFile{path: path, as: filepath.Join("/", path)})
				break
			}
		}
	}
	return out
}

// soname is the name a library goes by.
func soname(path string) (string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	names, err := file.DynString(elf.DT_SONAME)
	if err != nil || len(names) == 0 {
		return "", err
	}
	return names[0], nil
}
