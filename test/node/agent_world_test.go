package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/node/view"
)

const (
	gpuResource = string(names.ResourceNVIDIA)
	gpuCount    = 8
	agentUser   = "system:tangram:gpu-agent"
	// deviceMajor is a number that Linux keeps free for local use: no driver answers, so
	// that an error other than "forbidden" says that the container may use the device.
	deviceMajor = 60
	// faultsAnnotation of a GPUNode breaks devices of the simulated back end.
	faultsAnnotation = names.Group + "/simulated-faults"
)

// wholeFleet is the hardware of the node unless a test says otherwise: eight GPUs, four
// on each of two NUMA nodes.
const wholeFleet = `pools: [{name: real, count: 1, gpu: {model: H100-80GB, count: 8, numaNodes: 2}}]`

// agentWorld is a real node with Tangram's scheduler and agent.
type agentWorld struct {
	*Node
	*agentState
	t *testing.T
}

type agentState struct {
	bin     string
	dynamic dynamic.Interface
	nodes   string // folder of the device nodes
	runs    int
	started []*local.Process // by run
}

// newAgentWorld starts a control plane, a node and the scheduler. The agent is up to
// the test.
func newAgentWorld(t *testing.T) *agentWorld {
	t.Helper()
	m := require(t)
	if err := local.RequirePrograms(m.bin, "gpu-scheduler", "gpu-agent"); err != nil {
		t.Skipf("skipped: %v", err)
	}
	w := newAgentWorldIn(t, startCluster(t))
	w.startScheduler()
	return w
}

// newAgentWorldIn starts a node for a control plane; scheduler and agent are up to the
// test.
func newAgentWorldIn(t *testing.T, cluster *local.Cluster) *agentWorld {
	t.Helper()
	m := require(t)
	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	n := Start(t, Options{Cluster: cluster, Name: "real-0", NUMANodes: 2})
	w := &agentWorld{Node: n, t: t, agentState: &agentState{bin: m.bin, dynamic: client, nodes: n.Dir("nodes")}}
	for i := range gpuCount {
		// By name they sort as the devices are numbered.
		path := filepath.Join(w.nodes, fmt.Sprintf("%02d", i))
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(deviceMajor, uint32(i)))); err != nil {
			t.Skipf("skipped: this machine does not let us make device nodes: %v", err)
		}
	}
	return w
}

// in is the same world for a sub-test, with no pods in it.
func (w *agentWorld) in(t *testing.T) *agentWorld {
	t.Helper()
	sub := &agentWorld{Node: w.Node.In(t), agentState: w.agentState, t: t}
	pods, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, p := range pods.Items {
		left = append(left, p.Name)
	}
	sub.Delete(left...)
	return sub
}

func (w *agentWorld) startScheduler() {
	w.t.Helper()
	p, err := w.cluster.Launch(context.Background(), local.Component{Name: "gpu-scheduler", Config: config.Scheduler(), Flags: []string{"--leader-elect=false"}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.follow(w.t, p.Process)
}

// run starts a program beside the control plane; when the test fails its log is shown.
func (w *agentWorld) run(t *testing.T, program local.Program) *local.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := w.cluster.Run(ctx, program)
	if err != nil {
		t.Fatal(err)
	}
	w.follow(t, p)
	return p
}

// follow shows the log of a program when the test fails.
func (w *agentWorld) follow(t *testing.T, p *local.Process) {
	w.started = append(w.started, p)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s", p.Name(), local.LastLines(p.Log(), 25))
		}
	})
}

// agentOptions say how the agent is set up. The zero value sells wholeFleet's GPUs whole.
type agentOptions struct {
	fleet  string
	config string   // NVIDIA's configuration file, version 1
	flags  []string // more of them
}

// startAgent starts an agent that serves kubelet, as the latest of perhaps several.
func (w *agentWorld) startAgent(o agentOptions) *local.Process {
	w.t.Helper()
	w.runs++
	name := "gpu-agent-" + strconv.Itoa(w.runs)
	if o.fleet == "" {
		o.fleet = wholeFleet
	}
	file := func(suffix, text string) string {
		path := filepath.Join(w.cluster.Dir(), name+suffix)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
		return path
	}
	program := w.agentProgram(name, append([]string{"--backend=simulated", "--fleet=" + file("-fleet.yaml", o.fleet), "--simulated-device-nodes=" + w.nodes}, o.flags...)...)
	if o.config != "" {
		program.Env = []string{"CONFIG_FILE=" + file("-config.yaml", o.config)}
	}
	return w.run(w.t, program)
}

// agentProgram is an agent that serves kubelet.
func (w *agentWorld) agentProgram(name string, flags ...string) local.Program {
	w.t.Helper()
	kubeconfig, err := w.cluster.KubeconfigFor(agentUser)
	if err != nil {
		w.t.Fatal(err)
	}
	port, err := local.FreePort()
	if err != nil {
		w.t.Fatal(err)
	}
	return local.Program{Name: name, Path: filepath.Join(w.bin, "gpu-agent"), Args: append([]string{
		"--node=" + w.Name, "--serve", "--kubeconfig=" + kubeconfig, "--kubelet-dir=" + w.KubeletDir(), "--cdi-dir=" + w.CDIDir(),
		"--state-dir=" + w.Dir("agent"), "--listen=127.0.0.1:" + strconv.Itoa(port),
	}, flags...)}
}

// stop ends an agent as kubelet would end its container.
func (w *agentWorld) stop(p *local.Process) {
	w.t.Helper()
	if err := p.Stop(); err != nil {
		w.t.Fatal(err)
	}
}

// kill ends an agent as a crash would.
func (w *agentWorld) kill(p *local.Process) {
	w.t.Helper()
	if err := p.Kill(); err != nil {
		w.t.Fatal(err)
	}
}

// gpuPod is a pod for Tangram's scheduler with one container for each set of limits:
// main, second, third. Its containers also try every device of the node.
func (w *agentWorld) gpuPod(name string, limits ...map[string]int64) *v1.Pod {
	return w.Pod(name, nil, func(p *v1.Pod) {
		p.Spec.NodeName = ""
		p.Spec.SchedulerName = names.SchedulerName
		p.Spec.Containers = nil
		for i, l := range limits {
			p.Spec.Containers = append(p.Spec.Containers, Container([]string{"main", "second", "third"}[i], l, tryAll()...))
		}
	})
}

// tryAll are the arguments of a container that looks around, tries to use all devices of
// the node, and sleeps.
func tryAll() []string {
	var args []string
	for i := range gpuCount {
		args = append(args, fmt.Sprintf("try=%d:%d", deviceMajor, i))
	}
	return append(args, "look", "sleep")
}

func gpus(count int64) map[string]int64 { return map[string]int64{gpuResource: count} }

// record is a pod's record.
func (w *agentWorld) record(pod string) *record.Record {
	w.t.Helper()
	r, err := record.Decode(w.Get(pod).Annotations[names.AnnotationDevices])
	if err != nil {
		w.t.Fatalf("record of %s: %v", pod, err)
	}
	return &r
}

// recorded is what the record says that a container holds.
func (w *agentWorld) recorded(pod, container string) []record.Device {
	w.t.Helper()
	for _, c := range w.record(pod).Containers {
		if c.Name == container {
			return c.Devices
		}
	}
	return nil
}

// checkTrue checks that all containers of running pods see exactly the devices of their
// records, may use these and no others, and returns what they saw by "pod/container".
// Records are corrected a moment after a container starts, so they are asked again.
func (w *agentWorld) checkTrue(pods ...string) map[string]*view.View {
	w.t.Helper()
	all := map[string]*view.View{}
	for _, name := range pods {
		pod := w.AwaitRunning(name)
		for _, c := range pod.Spec.Containers {
			seen := w.LookInto(pod, c.Name)
			all[name+"/"+c.Name] = seen
			eventually(w.t, 30*time.Second, "the record of "+name+" is true", func(context.Context) error {
				return truthful(seen, w.recorded(name, c.Name))
			})
			w.onlyGiven(name+"/"+c.Name, seen)
		}
	}
	return all
}

// truthful compares what a container sees with what it holds.
func truthful(seen *view.View, held []record.Device) error {
	var want, got []string
	for _, d := range held {
		want = append(want, fmt.Sprintf("/dev/nvidia%d %d:%d", d.Index, deviceMajor, d.Index))
	}
	for _, d := range seen.Given() {
		if !strings.HasPrefix(d.Path, "/dev/nvidia-caps/") { // of a MIG instance, beside its GPU
			got = append(got, d.Path+" "+d.Number())
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		return fmt.Errorf("it sees %v, its record has %v", got, want)
	}
	return nil
}

// onlyGiven checks that the container may use what it sees and nothing else, and that
// NVIDIA's runtime would add nothing.
func (w *agentWorld) onlyGiven(who string, seen *view.View) {
	w.t.Helper()
	given := map[string]bool{}
	for _, d := range seen.Given() {
		given[d.Number()] = true
		if d.Open == view.Forbidden {
			w.t.Errorf("%s was given %s and may not use it", who, d.Path)
		}
	}
	for number, problem := range seen.Tries {
		if allowed := problem != view.Forbidden; allowed != given[number] {
			w.t.Errorf("%s: device %s: given is %v, and to use it says %q", who, number, given[number], problem)
		}
	}
	if got := seen.Values("NVIDIA_VISIBLE_DEVICES"); !slices.Equal(got, []string{"void"}) {
		w.t.Errorf("%s: NVIDIA_VISIBLE_DEVICES is %q", who, got)
	}
}

// indices are the devices that a container sees.
func indices(seen *view.View) []int {
	var all []int
	for _, d := range seen.Given() {
		all = append(all, int(d.Minor))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// disjoint checks that no device is seen by two containers, and that they are as many as
// wanted.
func (w *agentWorld) disjoint(all map[string]*view.View, want int) {
	w.t.Helper()
	owner := map[int]string{}
	for who, seen := range all {
		for _, i := range indices(seen) {
			if other, taken := owner[i]; taken {
				w.t.Errorf("%s and %s both have device %d", who, other, i)
			}
			owner[i] = who
		}
	}
	if len(owner) != want {
		w.t.Errorf("%d devices are in use, not %d", len(owner), want)
	}
}

// gpuNode is the node's GPUNode.
func (w *agentWorld) gpuNode() (*v1alpha1.GPUNode, error) {
	object, err := w.dynamic.Resource(v1alpha1.GPUNodes).Get(context.Background(), w.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	n := &v1alpha1.GPUNode{}
	return n, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, n)
}

// awaitGPUNode waits until the GPUNode is as wanted: the check says what it lacks.
func (w *agentWorld) awaitGPUNode(what string, lacks func(*v1alpha1.GPUNode) string) {
	w.t.Helper()
	eventually(w.t, time.Minute, "the GPUNode "+what, func(context.Context) error {
		n, err := w.gpuNode()
		if err != nil {
			return err
		}
		if missing := lacks(n); missing != "" {
			return fmt.Errorf("%s", missing)
		}
		return nil
	})
}

// patchGPUNode merges into the GPUNode.
func (w *agentWorld) patchGPUNode(patch map[string]any, subresources ...string) {
	w.t.Helper()
	data, err := json.Marshal(patch)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.dynamic.Resource(v1alpha1.GPUNodes).Patch(context.Background(), w.Name, types.MergePatchType, data, metav1.PatchOptions{}, subresources...); err != nil {
		w.t.Fatal(err)
	}
}

// faults sets what is wrong with the simulated devices; empty repairs all.
func (w *agentWorld) faults(text string) {
	w.t.Helper()
	var value any
	if text != "" {
		value = text
	}
	w.patchGPUNode(map[string]any{"metadata": map[string]any{"annotations": map[string]any{faultsAnnotation: value}}})
}
