package mps

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Owner is the container that a process belongs to, as its cgroup says.
type Owner struct {
	PodUID string
	// ContainerID is the container runtime's, 64 hexadecimal digits; empty for a process
	// of the pod outside its containers.
	ContainerID string
}

// kubelet names a pod's cgroup pod<UID> (cgroupfs) or ...-pod<UID with _>.slice
// (systemd); the UID of a static pod is a hash without dashes.
var podCgroup = regexp.MustCompile(`^(?:.*-)?pod([0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12})(?:\.slice)?$`)

// Runtimes name a container's cgroup <ID>, or cri-containerd-<ID>.scope and the like.
var containerCgroup = regexp.MustCompile(`^(?:(?:cri-containerd|containerd|crio|docker|libpod)-)?([0-9a-f]{64})(?:\.scope)?$`)

// OwnerOf finds the container of a process, with cgroups v1 and v2 and both of kubelet's
// cgroup drivers. false: it is no pod's. proc is /proc of the node.
func OwnerOf(proc string, pid int) (Owner, bool, error) {
	data, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return Owner{}, false, fmt.Errorf("container of process %d: %w", pid, err)
	}
	owner, ok := parseCgroup(string(data))
	return owner, ok, nil
}

// parseCgroup reads /proc/PID/cgroup: lines of id:controllers:path.
func parseCgroup(text string) (Owner, bool) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		// containerd writes slice:prefix:ID where it does not ask systemd.
		names := strings.FieldsFunc(parts[2], func(r rune) bool { return r == '/' || r == ':' })
		for i, name := range names {
			// The outermost counts: below its own cgroup a container may name others as
			// it likes.
			pod := podCgroup.FindStringSubmatch(name)
			if pod == nil {
				continue
			}
			owner := Owner{PodUID: strings.ReplaceAll(pod[1], "_", "-")}
			for _, below := range names[i+1:] {
				if container := containerCgroup.FindStringSubmatch(below); container != nil {
					owner.ContainerID = container[1]
					break
				}
			}
			return owner, true
		}
	}
	return Owner{}, false
}
