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
	// Tries says for each device number that was tried why a node made for it could not
	// be opened; empty if it could. What the cgroup forbids has [Forbidden].
	Tries map[string]string `json:"tries,omitempty"`
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
	// What the cgroup forbids has [Forbidden].
	Open string `json:"open,omitempty"`
}

// Forbidden is the error of a device that exists or not, and that the container must not
// use. Every other error comes from the device, or from there being none: the container
// was let through.
var Forbidden = syscall.EPERM.Error()

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

// Asked is what to do besides looking.
type Asked struct {
	Files []string // to be read
	Tries []string // numbers of character devices, as "major:minor"
}

// Take looks at this process's machine.
func Take(asked Asked) *View {
	v := &View{Env: os.Environ(), Devices: devices("/dev"), Mounts: mounts(), Files: map[string]string{}, Tries: map[string]string{}}
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
	for _, path := range asked.Files {
		data, err := os.ReadFile(path)
		if err != nil {
			data = []byte("error: " + err.Error())
		}
		v.Files[path] = string(data)
	}
	for _, number := range asked.Tries {
		v.Tries[number] = try(number)
	}
	return v
}

// try makes a device node and opens it, as a container may that was not given one.
func try(number string) string {
	var major, minor uint64
	if _, err := fmt.Sscanf(number, "%d:%d", &major, &minor); err != nil {
		return err.Error()
	}
	path := filepath.Join("/tmp", "try-"+strings.ReplaceAll(number, ":", "-"))
	_ = os.Remove(path)
	device := major&0xfff<<8 | minor&0xff | minor&^0xff<<12
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, int(device)); err != nil {
		return err.Error()
	}
	return open(path)
}

// open says why a device cannot be opened for reading and writing. Non-blocking, without
// a controlling terminal: looking must not have effects.
func open(path string) string {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err.Error()
	}
	_ = syscall.Close(fd)
	return ""
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
		d.Open = open(path)
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
