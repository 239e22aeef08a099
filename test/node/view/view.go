// Package view is what a container sees of its machine: taken inside by the inspect
// program, read outside by the tests.
package view

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// View is what one container saw at one moment.
type View struct {
	// Env is the environment as the process got it, as "KEY=value", duplicates kept.
	Env []string `json:"env"`
	// Devices are the device nodes below /dev, by path, without terminals.
	Devices []Device `json:"devices"`
	// Mounts is the mount table.
	Mounts []Mount `json:"mounts"`
	// DeviceRules are the device rules of the container's cgroup ("c 1:3 rwm"). Only
	// cgroup v1 lets a process read them.
	DeviceRules []string `json:"deviceRules,omitempty"`
	// CPUs and MemoryNodes are what the process may run on ("0-1") and allocate from.
	CPUs        string `json:"cpus"`
	MemoryNodes string `json:"memoryNodes"`
	// Files are the files asked for, by path; one that cannot be read has the error's
	// text with "error: " before.
	Files map[string]string `json:"files,omitempty"`
}

// Device is one device node.
type Device struct {
	Path  string `json:"path"`
	Type  string `json:"type"` // "c" or "b"
	Major uint32 `json:"major"`
	Minor uint32 `json:"minor"`
	Mode  string `json:"mode"` // permission bits, "0666"
	// Open is why it could not be opened for reading and writing; empty if it could.
	// A device that the cgroup does not allow has "operation not permitted".
	Open string `json:"open,omitempty"`
}

// Number is the device's number as "major:minor".
func (d Device) Number() string { return fmt.Sprintf("%d:%d", d.Major, d.Minor) }

// Mount is one line of the mount table.
type Mount struct {
	Target  string `json:"target"`
	Root    string `json:"root"` // the part of the file system that is mounted
	Type    string `json:"type"`
	Options string `json:"options"`
}

// Values are all values the environment has of a name, in order.
func (v *View) Values(name string) []string {
	var values []string
	for _, e := range v.Env {
		if key, value, _ := strings.Cut(e, "="); key == name {
			values = append(values, value)
		}
	}
	return values
}

// standard are the device nodes that every container has.
var standard = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/console", "/dev/ptmx"}

// Given are the devices beyond those that every container has.
func (v *View) Given() []Device {
	var given []Device
	for _, d := range v.Devices {
		if !slices.Contains(standard, d.Path) {
			given = append(given, d)
		}
	}
	return given
}

// Mounted is the mount at a path, if there is one.
func (v *View) Mounted(target string) (Mount, bool) {
	for _, m := range v.Mounts {
		if m.Target == target {
			return m, true
		}
	}
	return Mount{}, false
}

// Take looks at this process's machine; files are read besides.
func Take(files []string) *View {
	v := &View{Env: os.Environ(), Devices: devices("/dev"), Mounts: mounts(), Files: map[string]string{}}
	for _, line := range lines("/sys/fs/cgroup/devices/devices.list") {
		v.DeviceRules = append(v.DeviceRules, strings.TrimSpace(line))
	}
	for _, line := range lines("/proc/self/status") {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "Cpus_allowed_list":
			v.CPUs = strings.TrimSpace(value)
		case "Mems_allowed_list":
			v.MemoryNodes = strings.TrimSpace(value)
		}
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			data = []byte("error: " + err.Error())
		}
		v.Files[path] = string(data)
	}
	return v
}

// devices walks a folder; what cannot be read is left out.
func devices(root string) []Device {
	var found []Device
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if entry.IsDir() && (path == "/dev/pts" || path == "/dev/shm" || path == "/dev/mqueue") {
			return filepath.SkipDir
		}
		if entry.Type()&fs.ModeDevice == 0 {
			return nil
		}
		var st syscall.Stat_t
		if syscall.Lstat(path, &st) != nil {
			return nil
		}
		d := Device{Path: path, Type: "b", Major: major(st.Rdev), Minor: minor(st.Rdev), Mode: fmt.Sprintf("%04o", st.Mode&0o7777)}
		if st.Mode&syscall.S_IFMT == syscall.S_IFCHR {
			d.Type = "c"
		}
		// Non-blocking, without a controlling terminal: looking must not have effects.
		if fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0); err != nil {
			d.Open = err.Error()
		} else {
			_ = syscall.Close(fd)
		}
		found = append(found, d)
		return nil
	})
	return found
}

// major and minor take a device number apart as Linux composes it.
func major(dev uint64) uint32 { return uint32(dev>>8)&0xfff | uint32(dev>>32)&^0xfff }
func minor(dev uint64) uint32 { return uint32(dev)&0xff | uint32(dev>>12)&^0xff }

func mounts() []Mount {
	var found []Mount
	for _, line := range lines("/proc/self/mountinfo") {
		// id parent major:minor root target options [fields] - type source options
		before, after, _ := strings.Cut(line, " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if len(head) < 6 || len(tail) < 1 {
			continue
		}
		found = append(found, Mount{Root: head[3], Target: head[4], Options: head[5], Type: tail[0]})
	}
	return found
}

func lines(path string) []string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	var all []string
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		all = append(all, scanner.Text())
	}
	return all
}
