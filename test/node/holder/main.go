// Command holder is the first process of a test node's own process and mount
// namespaces: kubelet, containerd and all containers live there, and end with it.
//
// It is started in new namespaces by the harness and arranges the file system so that
// what has a fixed place (kubelet's device plugin folder, the runtime's sockets, logs)
// lies in the node's own folder, and what would change the machine (kernel settings)
// does not reach it. Then it says "ready" and waits until its standard input ends,
// which the kernel sees to when the harness dies, however it dies.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: holder FOLDER NUMA-NODES"))
	}
	numaNodes, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fail(err)
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	if err := arrange(os.Args[1], numaNodes); err != nil {
		fail(err)
	}
	fmt.Println("ready")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // the kernel kills what else lives in the process namespace
	}()
	// Shims detach from containerd, and the first process inherits them.
	for range children {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "holder:", err)
	os.Exit(1)
}

// kernelSettings are those that kubelet and the network plugins set for the whole
// machine, with the values they want. In the node's namespace plain files stand for
// them.
var kernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
	"net/ipv4/ip_forward":       "1",
}

func arrange(folder string, numaNodes int) error {
	// From here on no mount reaches the machine, nor the other way round.
	if err := mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", 0); err != nil {
		return err
	}
	if err := mount("tmpfs", "/run", "tmpfs", 0); err != nil {
		return err
	}
	for from, to := range map[string]string{"kubelet": "/var/lib/kubelet", "log": "/var/log"} {
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if err := bind(filepath.Join(folder, from), to); err != nil {
			return err
		}
	}
	for name, value := range kernelSettings {
		setting := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(setting); err != nil {
			continue // not every kernel has every one
		}
		file := filepath.Join(folder, "sys", strings.ReplaceAll(name, "/", "."))
		if err := write(file, value+"\n"); err != nil {
			return err
		}
		if err := bind(file, setting); err != nil {
			return err
		}
	}
	if numaNodes > 0 {
		nodes := filepath.Join(folder, "numa")
		if err := writeNUMA(nodes, numaNodes, runtime.NumCPU()); err != nil {
			return err
		}
		return bind(nodes, "/sys/devices/system/node")
	}
	return nil
}

// writeNUMA writes what kubelet reads of /sys/devices/system/node, for a machine whose
// processors are dealt out to that many NUMA nodes.
func writeNUMA(folder string, nodes, processors int) error {
	for n := range nodes {
		at := filepath.Join(folder, fmt.Sprintf("node%d", n))
		if err := os.MkdirAll(filepath.Join(at, "hugepages"), 0o755); err != nil {
			return err
		}
		var distances []string
		for other := range nodes {
			if other == n {
				distances = append(distances, "10")
			} else {
				distances = append(distances, "20")
			}
		}
		if err := write(filepath.Join(at, "distance"), strings.Join(distances, " ")+"\n"); err != nil {
			return err
		}
		if err := write(filepath.Join(at, "meminfo"), fmt.Sprintf("Node %d MemTotal:       8388608 kB\n", n)); err != nil {
			return err
		}
		for cpu := n; cpu < processors; cpu += nodes {
			name := fmt.Sprintf("cpu%d", cpu)
			if err := os.Symlink(filepath.Join("/sys/devices/system/cpu", name), filepath.Join(at, name)); err != nil {
				return err
			}
		}
	}
	return write(filepath.Join(folder, "online"), fmt.Sprintf("0-%d\n", nodes-1))
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func bind(from, to string) error { return mount(from, to, "", syscall.MS_BIND) }

func mount(from, to, kind string, flags uintptr) error {
	if err := syscall.Mount(from, to, kind, flags, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", from, to, err)
	}
	return nil
}
