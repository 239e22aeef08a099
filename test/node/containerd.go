package node

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// containerdConfig is containerd's configuration, version 3. The places are: root,
// state, socket, image, runc, CNI plugins, CNI configuration, CDI folder.
const containerdConfig = `version = 3
root = %[1]q
state = %[2]q
imports = []
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
address = %[3]q

[plugins.'io.containerd.cri.v1.images']
snapshotter = "native"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = %[4]q

[plugins.'io.containerd.cri.v1.runtime']
enable_cdi = true
cdi_spec_dirs = [%[8]q]
# Containers must not ask for a lower out-of-memory score than we have: that needs a
# right that root in a container lacks.
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = [%[6]q]
conf_dir = %[7]q

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = %[5]q
SystemdCgroup = false
`

func (n *Node) containerdSocket() string { return n.path("containerd.sock") }

// writeContainerdConfig writes containerd's and the network's configuration.
func (n *Node) writeContainerdConfig() error {
	config := fmt.Sprintf(containerdConfig, n.path("containerd"), n.path("state"), n.containerdSocket(), Image,
		n.machine.runc, n.machine.cni, n.path("cni"), n.CDIDir())
	if err := os.WriteFile(n.path("containerd.toml"), []byte(config), 0o600); err != nil {
		return err
	}
	network, err := json.Marshal(map[string]any{
		"cniVersion": "1.0.0", "name": "tangram-node",
		"plugins": []any{map[string]any{
			"type": "ptp", "ipMasq": false,
			"ipam": map[string]any{
				"type": "host-local", "dataDir": n.path("addresses"),
				// From the range for tests of networks (RFC 2544); two nodes never meet, as
				// their routes are to single addresses, unless they use equal ones.
				"ranges": []any{[]any{map[string]any{"subnet": n.network}}},
			},
		}},
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.path("cni"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(n.path("cni", "10-ptp.conflist"), network, 0o600)
}

func (n *Node) startContainerd() error {
	// The shim is found beside containerd, and runc's own tools where they are.
	path := "PATH=" + n.machine.bin + ":/usr/sbin:/usr/bin:/sbin:/bin"
	p, err := n.space.run(n.path("log", "containerd.log"), filepath.Join(n.machine.bin, "containerd"), []string{path},
		"--config="+n.path("containerd.toml"), "--log-level=info")
	if err != nil {
		return err
	}
	n.containerd = p
	return p.awaitReady(time.Minute, func() error { return answers(n.containerdSocket()) })
}

// importImage gives containerd the tests' image.
func (n *Node) importImage(archive string) error {
	cmd := exec.Command(filepath.Join(n.machine.bin, "ctr"), "--address="+n.containerdSocket(), "--namespace=k8s.io",
		"images", "import", "--snapshotter=native", "--local", archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import the image: %w: %s", err, out)
	}
	return nil
}
