package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/test/gpu/report"
)

// container runs load where nothing of the machine is seen but what the back end's edits
// hand out.
func (p *probe) container(s *report.Section) error {
	edits, err := p.backend.Edits(p.ctx, []string{p.gpu.UUID})
	if err != nil {
		return err
	}
	s.Printf("An empty root folder with the C library, the CUDA program and nothing but what `Edits` lists:")
	s.Printf("%d device nodes, %d mounts, %d hooks; environment %v.\n", len(edits.Nodes), len(edits.Mounts), len(edits.Hooks), edits.Env)
	s.Printf("```\n%s\n```\n", strings.Join(nodePaths(edits), "\n"))
	r, err := p.contained(edits, "-seconds", "0.5")
	s.Check(err == nil && r.Devices == 1 && r.SMs == p.gpu.SMs, "the program there sees %d device (%s) with %d SMs; error: %v", r.Devices, r.Name, r.SMs, err)
	return nil
}

func nodePaths(edits device.Edits) []string {
	var out []string
	for _, n := range edits.Nodes {
		out = append(out, n.Path)
	}
	return out
}

// contained runs load in a root folder that holds what edits say and the C library.
func (p *probe) contained(edits device.Edits, args ...string) (result, error) {
	root, err := os.MkdirTemp("", "probe")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(root)
	libraries, err := exec.Command("ldd", p.load).Output()
	if err != nil {
		return result{}, fmt.Errorf("ldd %s: %w", p.load, err)
	}
	binds := map[string]string{} // in the container: on the machine
	for _, word := range strings.Fields(string(libraries)) {
		if strings.HasPrefix(word, "/") {
			binds[word] = word
			for _, more := range []string{"libdl.so.2", "libpthread.so.0", "librt.so.1", "libm.so.6"} {
				other := filepath.Join(filepath.Dir(word), more)
				if _, err := os.Stat(other); err == nil && strings.Contains(word, "libc.so") {
					binds[other] = other
				}
			}
		}
	}
	search := map[string]bool{}
	for _, m := range edits.Mounts {
		binds[m.ContainerPath] = m.HostPath
		if strings.Contains(filepath.Base(m.ContainerPath), ".so") {
			search[filepath.Dir(m.ContainerPath)] = true
		}
	}
	for _, n := range edits.Nodes {
		binds[n.Path] = n.HostPath
	}
	binds["/load"] = p.load

	// The driver's libraries make device nodes that they miss, when root runs them. In a
	// container the device cgroup makes those useless; here nodev does.
	// A script, since the mounts must happen in the namespace of the program.
	var script strings.Builder
	fmt.Fprintf(&script, "set -e\nmount --make-rprivate /\nmount -t tmpfs -o nodev none %s\n", root)
	for to, from := range binds {
		at := filepath.Join(root, to)
		fmt.Fprintf(&script, "mkdir -p %s; touch %s; mount --bind %s %s\n", filepath.Dir(at), at, from, at)
	}
	fmt.Fprintf(&script, "mkdir -p %[1]s/proc %[1]s/tmp; mount -t proc proc %[1]s/proc\nexec chroot %[1]s /load %[2]s\n", root, strings.Join(args, " "))
	command := exec.CommandContext(p.ctx, "sh", "-c", script.String())
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	var folders []string
	for folder := range search {
		folders = append(folders, folder)
	}
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LD_LIBRARY_PATH=" + os.Getenv("LD_LIBRARY_PATH") + ":" + strings.Join(folders, ":")}, edits.Env...)
	j, err := launch(command)
	if err != nil {
		return result{}, err
	}
	return j.wait()
}
