package mps

import (
	"os"
	"strings"
	"testing"
)

func TestParseCgroup(t *testing.T) {
	const uid = "0a1b2c3d-1111-2222-3333-444455556666"
	const slice = "0a1b2c3d_1111_2222_3333_444455556666"
	id := strings.Repeat("0123456789abcdef", 4)
	other := strings.Repeat("f", 64)
	tests := []struct {
		name, text string
		want       Owner
		ok         bool
	}{
		{"v2 cgroupfs", "0::/kubepods/burstable/pod" + uid + "/" + id, Owner{uid, id}, true},
		{"v2 cgroupfs guaranteed", "0::/kubepods/pod" + uid + "/" + id, Owner{uid, id}, true},
		{"v2 systemd containerd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice + ".slice/cri-containerd-" + id + ".scope", Owner{uid, id}, true},
		{"v2 systemd cri-o", "0::/kubepods.slice/kubepods-pod" + slice + ".slice/crio-" + id + ".scope/container", Owner{uid, id}, true},
		{"v2 below another root", "0::/../../kubelet/kubepods/besteffort/pod" + uid + "/" + id, Owner{uid, id}, true},
		{"v1 cgroupfs", "12:memory:/kubepods/burstable/pod" + uid + "/" + id + "\n11:cpu,cpuacct:/kubepods/burstable/pod" + uid + "/" + id, Owner{uid, id}, true},
		{"v1, a controller outside", "12:rdma:/\n11:memory:/kubepods/besteffort/pod" + uid + "/" + id, Owner{uid, id}, true},
		{"v1 systemd without its scope", "1:name=systemd:/kubepods-burstable-pod" + slice + ".slice:cri-containerd:" + id, Owner{uid, id}, true},
		{"v1 docker systemd", "4:memory:/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + slice + ".slice/docker-" + id + ".scope", Owner{uid, id}, true},
		{"kind's kubelet", "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + slice + ".slice/cri-containerd-" + id + ".scope", Owner{uid, id}, true},
		{"static pod", "0::/kubepods/pod0a1b2c3d111122223333444455556666/" + id, Owner{"0a1b2c3d111122223333444455556666", id}, true},
		{"pod without a container", "0::/kubepods/pod" + uid, Owner{uid, ""}, true},
		{"a container names its own cgroup like another pod's", "0::/kubepods/pod" + uid + "/" + id + "/pod99999999-1111-2222-3333-444455556666/" + other, Owner{uid, id}, true},
		{"host process", "0::/system.slice/sshd.service", Owner{}, false},
		{"docker without kubelet", "0::/system.slice/docker-" + id + ".scope", Owner{}, false},
		{"nonsense", "x\n:\n::\n0::/podzzz/" + id, Owner{}, false},
		{"empty", "", Owner{}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, ok := parseCgroup(test.text)
			if got != test.want || ok != test.ok {
				t.Errorf("%+v %v, want %+v %v", got, ok, test.want, test.ok)
			}
		})
	}
}

func TestOwnerOfThisProcess(t *testing.T) {
	if _, _, err := OwnerOf("/proc", os.Getpid()); err != nil {
		t.Error(err)
	}
	if _, _, err := OwnerOf(t.TempDir(), 1); err == nil {
		t.Error("a process that is gone has an owner")
	}
}

func FuzzParseCgroup(f *testing.F) {
	f.Add("0::/kubepods/burstable/pod0a1b2c3d-1111-2222-3333-444455556666/" + strings.Repeat("a", 64))
	f.Add("1:name=systemd:/x.slice:cri-containerd:y")
	f.Fuzz(func(t *testing.T, text string) {
		owner, ok := parseCgroup(text)
		if ok != (owner.PodUID != "") || len(owner.ContainerID) != 0 && len(owner.ContainerID) != 64 {
			t.Errorf("%+v %v", owner, ok)
		}
	})
}
