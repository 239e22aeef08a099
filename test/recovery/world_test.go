// Package recovery tests health and recovery on a real API server, with KWOK for nodes and
// the simulated back end of the agent for GPUs. One cluster serves all tests that break
// single things; the drill has one of its own.
package recovery

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/lab/drill"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// settings of gpu-controller: intervals of a second, and everything that is off by
// default. verify.image lets a test pod run before a device is put back.
const settings = `
intervals: {node: 1s, device: 2s, scheduler: 2s}
evict: {from: Failed, overMemory: true}
recoverAfter: 1s
backoff: {first: 1s, most: 4s}
verify: {image: probe}
`

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // tests wait, mostly
		panic(err)
	}
	os.Exit(m.Run())
}

// world is the drill's cluster as one test sees it.
type world struct {
	*cluster.World
	drill *drill.World
}

func binDir(t *testing.T) string {
	t.Helper()
	return cluster.Bin(t, "kube-controller-manager", "kwok", "gpu-scheduler", "gpu-controller", "gpu-agent")
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	d, err := drill.Start(ctx, drill.Setup{Dir: t.TempDir(), Bin: binDir(t), Nodes: 40, Recovery: settings, Lease: 4 * time.Second,
		Agent: []string{"--heartbeat-interval=2s", "--publish-interval=1s", "--sample-interval=1s", "--quiet-percent=0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("gpu-controller:\n%s", local.LastLines(d.Process(drill.Controller).Log(), 60))
		}
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &world{cluster.Over(t, d.Cluster, binDir(t)), d}
}

// in is the world of a subtest.
func (w *world) in(t *testing.T) *world { return &world{w.In(t), w.drill} }

// looked is how long it is checked that nothing changes: the controller looks several times
// meanwhile, and would have acted.
const looked = 5 * time.Second

// pod creates a GPU pod on a node.
func (w *world) pod(node, name string, change ...cluster.Change) {
	w.T.Helper()
	w.Create(cluster.Pod(name, 1, append([]cluster.Change{cluster.Label("pod", name), cluster.On(v1.LabelHostname, node)}, change...)...))
}

// running waits until a pod runs.
func (w *world) running(name string) (p *v1.Pod) {
	w.T.Helper()
	w.Complete("pod "+name+" runs", func() string {
		if p = w.Get(name); p.Status.Phase != v1.PodRunning {
			return fmt.Sprintf("is %s on %q", p.Status.Phase, p.Spec.NodeName)
		}
		return ""
	})
	return p
}

// there says "" while a pod exists, with its UID, and is not leaving.
func (w *world) there(p *v1.Pod) func() string {
	return func() string {
		now := w.Find(p.Name)
		if now == nil || now.UID != p.UID || now.DeletionTimestamp != nil {
			return "pod " + p.Name + " was evicted"
		}
		return ""
	}
}

// gone is the contrary.
func (w *world) gone(p *v1.Pod) func() string {
	there := w.there(p)
	return func() string {
		if there() == "" {
			return "pod " + p.Name + " is still there"
		}
		return ""
	}
}

// gpuNode is a GPUNode as it is now.
func (w *world) gpuNode(name string) *v1alpha1.GPUNode {
	w.T.Helper()
	return cluster.Read[v1alpha1.GPUNode](w.World, cluster.GPUNodes, name)
}

// isolated says "" while exactly these devices of a node are isolated by gpu-controller.
func (w *world) isolated(node string, want ...int) func() string {
	return func() string {
		gn := w.gpuNode(node)
		if got := drill.Isolated(gn); !slices.Equal(got, want) {
			return fmt.Sprintf("isolated are %v, want %v; cordoned %v", got, want, gn.Spec.Cordoned)
		}
		return ""
	}
}

// breaks sets the faults of a node's simulated devices.
func (w *world) breaks(node, faults string) {
	w.T.Helper()
	w.Must(w.drill.Break(w.T.Context(), node, faults))
}

// cordon adds operators' entries to a GPUNode.
func (w *world) cordon(node string, entries ...string) {
	w.T.Helper()
	w.Complete("cordon", func() string {
		gn := w.Object(cluster.GPUNodes, node)
		list, _, _ := unstructured.NestedStringSlice(gn.Object, "spec", "cordoned")
		w.Must(unstructured.SetNestedStringSlice(gn.Object, append(list, entries...), "spec", "cordoned"))
		if _, err := w.Objects(cluster.GPUNodes).Update(w.T.Context(), gn, metav1.UpdateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// node waits until a Node is as wanted.
func (w *world) node(name, what string, check func(*v1.Node) bool) {
	w.T.Helper()
	w.Complete("node "+name+" "+what, func() string {
		if n := cluster.Read[v1.Node](w.World, cluster.Nodes, name); !check(n) {
			return fmt.Sprintf("unschedulable %v, taints %v, annotations %v", n.Spec.Unschedulable, n.Spec.Taints, n.Annotations)
		}
		return ""
	})
}

func (w *world) setUnschedulable(node string, yes bool) {
	w.T.Helper()
	w.Patch(cluster.Nodes, node, fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, yes))
}

func marked(n *v1.Node) bool { return n.Annotations[names.AnnotationIsolated] != "" }

func tainted(n *v1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == names.TaintIsolated })
}
