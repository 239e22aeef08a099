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
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/drill"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

// patience is how long anything may take on a loaded machine.
const patience = 2 * time.Minute

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

type world struct {
	*drill.World
	bin string
}

func binDir(t *testing.T) string {
	t.Helper()
	return cluster.Bin(t, "kube-controller-manager", "kwok", "gpu-scheduler", "gpu-controller", "gpu-agent")
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{bin: binDir(t)}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var err error
	w.World, err = drill.Start(ctx, drill.Setup{Dir: t.TempDir(), Bin: w.bin, Nodes: 40, Recovery: settings, Lease: 4 * time.Second,
		Agent: []string{"--heartbeat-interval=2s", "--publish-interval=1s", "--sample-interval=1s", "--quiet-percent=0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("gpu-controller:\n%s", local.LastLines(w.Process(drill.Controller).Log(), 60))
		}
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// complete waits until check says "", which else says what is missing.
func complete(t *testing.T, what string, check func() string) {
	t.Helper()
	await.Complete(t, what, patience, check)
}

// stays fails when something changes while the controller looks several times: by then it
// would have acted.
func stays(t *testing.T, what string, check func() string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if wrong := check(); wrong != "" {
			t.Fatalf("%s: %s", what, wrong)
		}
	}
}

// pod creates a GPU pod on a node and waits until it runs.
func (w *world) pod(t *testing.T, node, name string, change ...func(*v1.Pod)) *v1.Pod {
	t.Helper()
	p := cluster.Pod("default", name, 1, cluster.Label("pod", name))
	p.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
	for _, c := range change {
		c(p)
	}
	if _, err := w.Client.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return p
}

func (w *world) running(t *testing.T, name string) *v1.Pod {
	t.Helper()
	var out *v1.Pod
	complete(t, "pod "+name+" runs", func() string {
		p, err := w.Client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		out = p
		if p.Status.Phase != v1.PodRunning {
			return fmt.Sprintf("is %s on %q", p.Status.Phase, p.Spec.NodeName)
		}
		return ""
	})
	return out
}

// there says "" while a pod exists, with its UID, and is not leaving.
func (w *world) there(t *testing.T, p *v1.Pod) func() string {
	return func() string {
		now, err := w.Client.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
		if err != nil || now.UID != p.UID || now.DeletionTimestamp != nil {
			return "pod " + p.Name + " was evicted"
		}
		return ""
	}
}

// gone is the contrary.
func (w *world) gone(t *testing.T, p *v1.Pod) func() string {
	there := w.there(t, p)
	return func() string {
		if there() == "" {
			return "pod " + p.Name + " is still there"
		}
		return ""
	}
}

// isolated says "" while exactly these devices of a node are isolated by gpu-controller.
func (w *world) isolated(t *testing.T, node string, want ...int) func() string {
	return func() string {
		gn, err := w.GPUNode(t.Context(), node)
		if err != nil {
			return err.Error()
		}
		if got := drill.Isolated(gn); !slices.Equal(got, want) {
			return fmt.Sprintf("isolated are %v, want %v; cordoned %v", got, want, gn.Spec.Cordoned)
		}
		return ""
	}
}

func (w *world) breaks(t *testing.T, node, faults string) {
	t.Helper()
	if err := w.Break(t.Context(), node, faults); err != nil {
		t.Fatal(err)
	}
}

// cordon adds operators' entries to a GPUNode.
func (w *world) cordon(t *testing.T, node string, entries ...string) {
	t.Helper()
	complete(t, "cordon", func() string {
		gn, err := w.Objects.Resource(v1alpha1.GPUNodes).Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		spec := gn.Object["spec"].(map[string]any)
		list, _ := spec["cordoned"].([]any)
		for _, e := range entries {
			list = append(list, e)
		}
		spec["cordoned"] = list
		if _, err := w.Objects.Resource(v1alpha1.GPUNodes).Update(t.Context(), gn, metav1.UpdateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// node waits until a Node is as wanted.
func (w *world) node(t *testing.T, name, what string, check func(*v1.Node) bool) {
	t.Helper()
	complete(t, "node "+name+" "+what, func() string {
		n, err := w.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if !check(n) {
			return fmt.Sprintf("unschedulable %v, taints %v, annotations %v", n.Spec.Unschedulable, n.Spec.Taints, n.Annotations)
		}
		return ""
	})
}

func (w *world) setUnschedulable(t *testing.T, node string, yes bool) {
	t.Helper()
	if _, err := w.Client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, yes), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func marked(n *v1.Node) bool { return n.Annotations[names.AnnotationIsolated] != "" }

func tainted(n *v1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == names.TaintIsolated })
}

// event waits for an event with a reason about an object, and returns its note.
func (w *world) event(t *testing.T, kind, name, reason string) (note string) {
	t.Helper()
	complete(t, fmt.Sprintf("event %s on %s %s", reason, kind, name), func() string {
		list, err := w.Client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, e := range list.Items {
			if e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == reason {
				note = e.Note
				return ""
			}
		}
		return "there is none"
	})
	return note
}
