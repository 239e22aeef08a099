package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/tangram-dev/tangram/lab/local"
)

// machine is where the parts of a node are on this machine.
type machine struct {
	bin  string // the programs of hack/build.sh
	runc string
	cni  string // folder of the CNI plugins
}

// require finds what a node needs. A machine that cannot run one skips the test and
// says why.
func require(t testing.TB) machine {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short, and this test starts a control plane, kubelet and containerd")
	}
	m := machine{bin: os.Getenv("TANGRAM_BIN")}
	if m.bin == "" {
		wd, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		m.bin = filepath.Join(wd, "..", "..", "bin")
	}
	var err error
	if m.runc, err = findRunc(m.bin); err == nil {
		m.cni, err = findPlugins(m.bin)
	}
	err = errors.Join(err, possible(m),
		local.RequirePrograms(m.bin, "etcd", "kube-apiserver", "kubelet", "containerd", "containerd-shim-runc-v2", "ctr"))
	if err != nil {
		t.Skipf("skipped: this machine cannot run a real node:\n%v", err)
	}
	return m
}

// possible says whether the system lets this process run a node at all.
func possible(m machine) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("needs Linux, this is %s", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("needs root, for namespaces, control groups and containers")
	}
	if _, err := exec.LookPath("go"); err != nil && !m.prepared() {
		return fmt.Errorf("needs Go, to build what runs in the containers: %w", err)
	}
	return cgroupsWritable()
}

// prepared says whether what runs in the node was built before (hack/gpu-dra.sh).
func (m machine) prepared() bool {
	return local.RequirePrograms(m.bin, "inspect", "holder") == nil
}

func findRunc(bin string) (string, error) {
	for _, path := range []string{filepath.Join(bin, "runc"), "/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc"} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	if path, err := exec.LookPath("runc"); err == nil {
		return path, nil
	}
	return "", errors.New("lacks runc (Debian package runc)")
}

func findPlugins(bin string) (string, error) {
	for _, folder := range []string{filepath.Join(bin, "cni"), "/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"} {
		missing := false
		for _, plugin := range []string{"ptp", "host-local", "loopback"} {
			if _, err := os.Stat(filepath.Join(folder, plugin)); err != nil {
				missing = true
			}
		}
		if !missing {
			return folder, nil
		}
	}
	return "", errors.New("lacks the CNI plugins (Debian package containernetworking-plugins)")
}
