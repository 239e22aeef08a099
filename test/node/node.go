package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tangram-dev/tangram/lab/local"
)

// Options say what node to start.
type Options struct {
	// Cluster is the control plane that the node joins.
	Cluster *local.Cluster
	// Name is the node's name.
	Name string
	// NUMANodes is how many NUMA nodes kubelet is to see; 0 means those of the machine.
	NUMANodes int
	// Kubelet is the first configuration of kubelet.
	Kubelet Kubelet
}

// Node is a running kubelet with its containerd, as one test sees it: what goes wrong
// fails that test. Its methods are for one goroutine.
type Node struct {
	*running
	t testing.TB
}

type running struct {
	// Name is the name of the Node object.
	Name string

	machine        machine
	cluster        *local.Cluster
	client         kubernetes.Interface
	folder         string
	network        string
	cgroup         string
	kubeletOptions Kubelet

	space      *namespace
	containerd *process
	kubelet    *process
	// kubeletPort is where kubelet serves its API.
	kubeletPort int
}

// In is the same node for a sub-test.
func (n *Node) In(t testing.TB) *Node { return &Node{running: n.running, t: t} }

// Start starts a node and returns once its Node object is Ready. It ends with the test.
// A machine that cannot run one skips the test and says why.
func Start(t testing.TB, o Options) *Node {
	t.Helper()
	m := require(t)
	removeLeftCgroups()
	// Not t.TempDir, whose path has the test's name and is too long for sockets.
	folder, err := os.MkdirTemp("", "tangram-node-")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(o.Cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{t: t, running: &running{
		Name: o.Name, machine: m, cluster: o.Cluster, client: client, folder: folder, network: nextNetwork(),
		cgroup: cgroupPrefix + strings.TrimPrefix(filepath.Base(folder), "tangram-node-"), kubeletOptions: o.Kubelet,
	}}
	t.Cleanup(n.close)
	if err := n.start(o.NUMANodes); err != nil {
		t.Fatal(err)
	}
	return n
}

// networks counts the networks given out, so that two nodes of one process differ.
var networks struct {
	sync.Mutex
	given int
}

// nextNetwork is a small network from the range for tests of networks (RFC 2544),
// different for each node of this process and most likely for those of others.
func nextNetwork() string {
	networks.Lock()
	defer networks.Unlock()
	networks.given++
	number := (os.Getpid()*7 + networks.given) % (2 * 256 * 4)
	return fmt.Sprintf("198.%d.%d.%d/26", 18+number/(256*4), number/4%256, number%4*64)
}

func (n *Node) start(numaNodes int) error {
	if err := makeCgroup(n.cgroup); err != nil {
		return err
	}
	for _, sub := range []string{"cdi", "bin"} {
		if err := os.MkdirAll(n.path(sub), 0o755); err != nil {
			return err
		}
	}
	if err := n.buildPrograms(); err != nil {
		return err
	}
	if err := writeImage(n.path("image.tar"), n.path("bin", "inspect")); err != nil {
		return err
	}
	var err error
	if n.space, err = newNamespace(n.path("bin", "holder"), n.folder, numaNodes); err != nil {
		return err
	}
	if err := n.writeContainerdConfig(); err != nil {
		return err
	}
	if err := n.startContainerd(); err != nil {
		return err
	}
	if err := n.importImage(n.path("image.tar")); err != nil {
		return err
	}
	if err := n.startKubelet(); err != nil {
		return err
	}
	if err := n.createAnchor(); err != nil {
		return err
	}
	n.awaitAnchor()
	n.awaitNode("is Ready", func(node *v1.Node) bool {
		for _, c := range node.Status.Conditions {
			if c.Type == v1.NodeReady {
				return c.Status == v1.ConditionTrue
			}
		}
		return false
	})
	return nil
}

// buildPrograms builds what runs in the node: static, as the image has nothing else.
func (n *Node) buildPrograms() error {
	if n.machine.prepared() {
		for _, name := range []string{"inspect", "holder"} {
			program, err := os.ReadFile(filepath.Join(n.machine.bin, name))
			if err != nil {
				return err
			}
			if err := os.WriteFile(n.path("bin", name), program, 0o755); err != nil {
				return err
			}
		}
		return nil
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", n.path("bin")+"/",
		"github.com/tangram-dev/tangram/test/node/inspect", "github.com/tangram-dev/tangram/test/node/holder")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build inspect and holder: %w: %s", err, out)
	}
	return nil
}

// path is a place in the node's folder.
func (n *running) path(parts ...string) string {
	return filepath.Join(append([]string{n.folder}, parts...)...)
}

// KubeletDir is kubelet's folder, with device-plugins and pod-resources in it: what
// /var/lib/kubelet is on a machine.
func (n *running) KubeletDir() string { return n.path("kubelet") }

// CDIDir is the one folder in which containerd looks for CDI specifications.
func (n *running) CDIDir() string { return n.path("cdi") }

// Dir makes a folder of the node for a test's own use.
func (n *Node) Dir(name string) string {
	n.t.Helper()
	if err := os.MkdirAll(n.path(name), 0o755); err != nil {
		n.t.Fatal(err)
	}
	return n.path(name)
}

// RestartKubelet ends kubelet (as if it crashed) and starts it again, with another
// configuration if one is given.
func (n *Node) RestartKubelet(change ...Kubelet) {
	n.t.Helper()
	n.StopKubelet()
	for _, k := range change {
		n.kubeletOptions = k
	}
	n.StartKubelet()
}

// StopKubelet kills kubelet; containers go on.
func (n *Node) StopKubelet() {
	n.kubelet.end(syscall.SIGKILL)
}

// StartKubelet starts kubelet after StopKubelet.
func (n *Node) StartKubelet() {
	n.t.Helper()
	if err := n.startKubelet(); err != nil {
		n.t.Fatal(err)
	}
	n.awaitAnchor()
}

// RestartContainerd ends containerd and starts it again; containers go on.
func (n *Node) RestartContainerd() {
	n.t.Helper()
	n.containerd.stop()
	if err := n.startContainerd(); err != nil {
		n.t.Fatal(err)
	}
}

// close ends the node's processes and removes what it made.
func (n *Node) close() {
	if n.t.Failed() {
		for _, p := range []*process{n.containerd, n.kubelet} {
			if p != nil {
				n.t.Logf("%s:\n%s", p.name, complaints(p.log, 15))
			}
		}
	}
	if n.space != nil {
		if err := n.space.close(); err != nil {
			n.t.Errorf("end the node's namespaces: %v", err)
		}
		for _, p := range []*process{n.kubelet, n.containerd} {
			if p != nil {
				<-p.done
			}
		}
	}
	if err := removeCgroup(n.cgroup); err != nil {
		n.t.Errorf("remove the node's control group: %v", err)
	}
	if n.t.Failed() && os.Getenv("TANGRAM_KEEP") != "" {
		n.t.Logf("kept: %s", n.folder)
		return
	}
	if err := os.RemoveAll(n.folder); err != nil {
		n.t.Errorf("remove the node's folder: %v", err)
	}
}

// awaitNode waits until the Node object is as wanted, and returns it.
func (n *Node) awaitNode(what string, ok func(*v1.Node) bool) *v1.Node {
	n.t.Helper()
	var last *v1.Node
	eventually(n.t, time.Minute, "node "+n.Name+" "+what, func(ctx context.Context) error {
		node, err := n.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if last = node; !ok(node) {
			return fmt.Errorf("conditions %v, allocatable %v", readiness(node), node.Status.Allocatable)
		}
		return nil
	})
	return last
}

// readiness is the node's Ready condition with its reason.
func readiness(node *v1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady {
			return fmt.Sprintf("Ready=%s (%s: %s)", c.Status, c.Reason, c.Message)
		}
	}
	return "no Ready condition"
}

// AwaitDevices waits until kubelet can hand out that many of a resource, and the Node
// object says so. The object alone does not tell: after a restart of kubelet it still
// has the numbers from before, and pods that come then are refused.
func (n *Node) AwaitDevices(resource string, count int64) {
	n.t.Helper()
	lister := n.PodResources()
	eventually(n.t, time.Minute, fmt.Sprintf("kubelet has %d of %s", count, resource), func(ctx context.Context) error {
		all, err := lister.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
		if err != nil {
			return err
		}
		has := map[string]bool{} // a device on two NUMA nodes is listed twice
		for _, d := range all.Devices {
			for _, id := range d.DeviceIds {
				has[id] = has[id] || d.ResourceName == resource
			}
		}
		maps.DeleteFunc(has, func(_ string, of bool) bool { return !of })
		if int64(len(has)) != count {
			return fmt.Errorf("it has %d", len(has))
		}
		return nil
	})
	n.awaitNode(fmt.Sprintf("offers %d of %s", count, resource), func(node *v1.Node) bool {
		q, ok := node.Status.Allocatable[v1.ResourceName(resource)]
		return (ok || count == 0) && q.Value() == count
	})
}

// PodResources is what kubelet says that containers hold.
func (n *Node) PodResources() podresources.PodResourcesListerClient {
	n.t.Helper()
	return podresources.NewPodResourcesListerClient(dial(n.t, n.path("kubelet", "pod-resources", "kubelet.sock")))
}

// dial connects to a socket until the test ends.
func dial(t testing.TB, socket string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// patience is how many times longer than on an idle machine things may take: the machine may
// run other tests, or others' work. One with a GPU does not, and its minutes are dear.
var patience = func() time.Duration {
	if os.Getenv("TANGRAM_GPU") == "nvml" {
		return 1
	}
	return 4
}()

// eventually asks until the answer is nil, and fails the test when that takes too long.
func eventually(t testing.TB, limit time.Duration, what string, ask func(context.Context) error) {
	t.Helper()
	limit *= patience
	deadline := time.Now().Add(limit)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := ask(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %v until %s: %v", limit, what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
