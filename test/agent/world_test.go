package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

const (
	agentUser = "system:tangram:gpu-agent"
	gpu       = names.ResourceNVIDIA
	// patience is how long anything may take on a machine that is busy with other tests.
	patience = 2 * time.Minute
)

// world is a control plane; each test has a node of its own in it.
type world struct {
	*cluster.Cluster
	// kubeconfig is that of agents.
	kubeconfig string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Cluster: cluster.ForTest(t, cluster.Options{
		Programs:  []string{"gpu-agent"},
		Manifests: [][]byte{config.CRDs(), config.AgentRBAC()},
	}).Cluster}
	var err error
	if w.kubeconfig, err = w.KubeconfigFor(agentUser); err != nil {
		t.Fatal(err)
	}
	return w
}

// node is one node with its agent.
type node struct {
	*world
	t       *testing.T
	name    string // <pool>-0
	dir     string // of kubelet, state and CDI
	kubelet *kubelet
	// kubeconfig is the agent's; throughGate replaces it.
	kubeconfig string

	agent  *local.Process
	listen string
	runs   int
}

// newNode makes a node object with kubelet's sockets, and no agent yet.
func (w *world) newNode(t *testing.T, pool string, labels map[string]string) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	n := &node{world: w, t: t, name: pool + "-0", dir: dir, kubeconfig: w.kubeconfig}
	_, err = w.Client.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: labels}}, metav1.CreateOptions{FieldManager: "gpu-feature-discovery"})
	if err != nil {
		t.Fatal(err)
	}
	if n.kubelet, err = newKubelet(filepath.Join(dir, "kubelet")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kubelet.stop)
	return n
}

// file writes a file of the node and returns its path.
func (n *node) file(name, text string) string {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return path
}

// args are the agent's arguments with a back end.
func (n *node) args(backend string, more ...string) []string {
	out := []string{"--node=" + n.name, "--kubeconfig=" + n.kubeconfig, "--backend=" + backend, "--kubelet-dir=" + filepath.Join(n.dir, "kubelet"),
		"--state-dir=" + filepath.Join(n.dir, "state"), "--cdi-dir=" + filepath.Join(n.dir, "cdi"), "--sample-interval=1s", "--silent-for=1s", "--quiet-percent=0"}
	if backend == "simulated" {
		pool, _, _ := strings.Cut(n.name, "-")
		out = append(out, "--fleet="+n.file("fleet.yaml", "pools: [{name: "+pool+", count: 1, gpu: {model: A100-80GB, count: 8, mig: true}}]"))
	}
	return append(out, more...)
}

// start runs the agent and waits until it is ready.
func (n *node) start(args ...string) {
	n.t.Helper()
	port, err := local.FreePort()
	if err != nil {
		n.t.Fatal(err)
	}
	n.runs++
	n.listen = "127.0.0.1:" + strconv.Itoa(port)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n.agent, err = n.Run(ctx, local.Program{
		Name: fmt.Sprintf("gpu-agent-%s-%d", n.name, n.runs), Path: filepath.Join(n.Bin, "gpu-agent"), Args: append(args, "--listen="+n.listen),
		Ready: func(ctx context.Context) error { _, err := n.get("/readyz"); return err },
		Env:   []string{"GOGC="}, // as on a node: make sets another one for tests
	})
	if err != nil {
		n.t.Fatal(err)
	}
	agent := n.agent
	n.t.Cleanup(func() {
		if n.t.Failed() {
			n.t.Logf("%s:\n%s", agent.Name(), n.log())
		}
		if err := agent.Stop(); err != nil {
			n.t.Error(err)
		}
	})
}

func (n *node) get(path string) (string, error) {
	response, err := http.Get("http://" + n.listen + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(body), err
}

// log is what the agent has written so far.
func (n *node) log() string {
	text, err := os.ReadFile(n.agent.Log())
	if err != nil {
		n.t.Error(err)
	}
	return string(text)
}

// await polls until check returns "", which else says what is missing.
func (n *node) await(what string, check func() string) {
	n.t.Helper()
	await.Complete(n.t, what, patience, check)
}

// logs waits for a text in the log.
func (n *node) logs(text string) {
	n.t.Helper()
	n.await("log", func() string {
		if strings.Contains(n.log(), text) {
			return ""
		}
		return fmt.Sprintf("has no %q", text)
	})
}

// metric is the value of the series of a name with all the given labels, such as
// result="busy"; -1 when there is none.
func (n *node) metric(name string, labels ...string) float64 {
	body, err := n.get("/metrics")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") {
			continue
		}
		all := true
		for _, l := range labels {
			all = all && strings.Contains(rest, l)
		}
		if all {
			v, err := strconv.ParseFloat(rest[strings.LastIndex(rest, " ")+1:], 64)
			if err != nil {
				n.t.Error(err)
			}
			return v
		}
	}
	return -1
}

// shows waits for a metric to have a value.
func (n *node) shows(want float64, name string, labels ...string) {
	n.t.Helper()
	n.await("metric "+name+fmt.Sprint(labels), func() string {
		if v := n.metric(name, labels...); v != want {
			return fmt.Sprintf("is %v, want %v", v, want)
		}
		return ""
	})
}

// counts waits for a metric to be above 0.
func (n *node) counts(name string, labels ...string) {
	n.t.Helper()
	n.await("metric "+name+fmt.Sprint(labels), func() string {
		if v := n.metric(name, labels...); v <= 0 {
			return fmt.Sprintf("is %v", v)
		}
		return ""
	})
}

// gpuNode waits until the GPUNode is as check wants it.
func (n *node) gpuNode(what string, check func(*v1alpha1.GPUNode) string) *v1alpha1.GPUNode {
	n.t.Helper()
	var out v1alpha1.GPUNode
	n.await("GPUNode "+what, func() string {
		o, err := n.Dynamic.Resource(v1alpha1.GPUNodes).Get(n.t.Context(), n.name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		out = v1alpha1.GPUNode{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &out); err != nil {
			return err.Error()
		}
		return check(&out)
	})
	return &out
}

// condition waits for a condition of the GPUNode.
func (n *node) condition(kind, status, reason string) {
	n.t.Helper()
	n.gpuNode("condition "+kind, func(g *v1alpha1.GPUNode) string {
		for _, c := range g.Status.Conditions {
			if c.Type == kind {
				if string(c.Status) == status && (reason == "" || c.Reason == reason) {
					return ""
				}
				return fmt.Sprintf("is %s, %s", c.Status, c.Reason)
			}
		}
		return "is missing"
	})
}

// health waits for the health of a device.
func (n *node) health(index int, want v1alpha1.Health) {
	n.t.Helper()
	n.gpuNode(fmt.Sprintf("device %d", index), func(g *v1alpha1.GPUNode) string {
		for _, d := range g.Status.Devices {
			if int(d.Index) == index && d.Health == want {
				return ""
			}
		}
		return fmt.Sprintf("is not %s: %+v", want, g.Status.Devices)
	})
}

// event waits for an event on an object, and returns its text. Events of nodes are in
// the namespace default, as kubelet's own.
func (n *node) event(kind, name, reason string) string {
	n.t.Helper()
	var text string
	n.await("event "+reason, func() string {
		list, err := n.Client.CoreV1().Events(metav1.NamespaceDefault).List(n.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, e := range list.Items {
			if e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name && e.Reason == reason {
				text = e.Message
				return ""
			}
		}
		return "is missing"
	})
	return text
}

// fault sets the simulated faults of the node; "" ends all.
func (n *node) fault(text string) {
	n.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, names.AnnotationSimulatedFaults, text)
	_, err := n.Dynamic.Resource(v1alpha1.GPUNodes).Patch(n.t.Context(), n.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
}

// offers waits until a number of devices of a resource can be given, and returns them.
func (n *node) offers(resource string, count int) (ids []string) {
	n.t.Helper()
	n.await("devices of "+resource, func() string {
		if ids = n.kubelet.healthy(resource); len(ids) != count {
			return fmt.Sprintf("%d are offered, want %d", len(ids), count)
		}
		return ""
	})
	return ids
}

// pod makes a pod of one container on the node, with the record of a device when one is
// given, and waits until the agent can know it.
func (n *node) pod(name, wanted string, count int64, devices ...record.Device) {
	n.t.Helper()
	limits := v1.ResourceList{v1.ResourceName(wanted): *resource.NewQuantity(count, resource.DecimalSI)}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, Annotations: map[string]string{}},
		Spec: v1.PodSpec{NodeName: n.name, Containers: []v1.Container{{Name: "main", Image: "none", Resources: v1.ResourceRequirements{Limits: limits}}}}}
	if len(devices) > 0 {
		text, err := record.Encode(record.Record{Node: n.name, Containers: []record.Container{{Name: "main", Resource: wanted, Devices: devices}}})
		if err != nil {
			n.t.Fatal(err)
		}
		p.Annotations[names.AnnotationDevices] = text
	}
	if _, err := n.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(n.t.Context(), p, metav1.CreateOptions{}); err != nil {
		n.t.Fatal(err)
	}
}

// phase sets a pod's phase.
func (n *node) phase(name string, phase v1.PodPhase) {
	n.t.Helper()
	patch := fmt.Sprintf(`{"status":{"phase":%q}}`, phase)
	if _, err := n.Client.CoreV1().Pods(metav1.NamespaceDefault).Patch(n.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		n.t.Fatal(err)
	}
}

// running says that a pod's container runs, as kubelet reports it.
func (n *node) running(name string) {
	n.t.Helper()
	const patch = `{"status":{"phase":"Running","containerStatuses":[{"name":"main","image":"none","imageID":"","restartCount":0,"ready":true,"started":true,"state":{"running":{}}}]}}`
	if _, err := n.Client.CoreV1().Pods(metav1.NamespaceDefault).Patch(n.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		n.t.Fatal(err)
	}
}

// record is the record of a pod.
func (n *node) record(name string) record.Record {
	n.t.Helper()
	p, err := n.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(n.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	r, err := record.Decode(p.Annotations[names.AnnotationDevices])
	if err != nil {
		return record.Record{}
	}
	return r
}

// gate is a way to the API server that can be closed.
type gate struct {
	address, server string
	mu              sync.Mutex
	listener        net.Listener
	open            map[net.Conn]bool
}

// throughGate makes the agent reach the API server through a gate.
func (n *node) throughGate() *gate {
	n.t.Helper()
	text, err := os.ReadFile(n.kubeconfig)
	if err != nil {
		n.t.Fatal(err)
	}
	server, err := url.Parse(n.RESTConfig().Host)
	if err != nil {
		n.t.Fatal(err)
	}
	port, err := local.FreePort()
	if err != nil {
		n.t.Fatal(err)
	}
	g := &gate{address: "127.0.0.1:" + strconv.Itoa(port), server: server.Host, open: map[net.Conn]bool{}}
	n.kubeconfig = n.file("kubeconfig", strings.ReplaceAll(string(text), server.Host, g.address))
	if err := g.up(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(g.down)
	return g
}

func (g *gate) up() error {
	l, err := net.Listen("tcp", g.address)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.listener = l
	g.mu.Unlock()
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go g.pass(in)
		}
	}()
	return nil
}

func (g *gate) pass(in net.Conn) {
	out, err := net.Dial("tcp", g.server)
	if err != nil {
		in.Close()
		return
	}
	g.mu.Lock()
	g.open[in], g.open[out] = true, true
	g.mu.Unlock()
	end := func() { in.Close(); out.Close() }
	go func() { defer end(); _, _ = io.Copy(out, bufio.NewReader(in)) }()
	defer end()
	_, _ = io.Copy(in, out)
}

// down closes the gate and cuts everything that passes.
func (g *gate) down() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listener.Close()
	for c := range g.open {
		c.Close()
	}
	clear(g.open)
}
