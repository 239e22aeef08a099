package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/lab/local"
)

// Setup is what a World consists of.
type Setup struct {
	// Dir keeps its state, Bin has the programs.
	Dir, Bin string
	// Nodes is how many there are, each with eight GPUs; the last has an agent process of
	// its own.
	Nodes int
	// Recovery is gpu-controller's configuration file. Agent are further arguments of the
	// agents, Lease is how long leases last.
	Recovery string
	Agent    []string
	Lease    time.Duration
	// Say gets one line per thing that happens; nil for none.
	Say func(format string, args ...any)
}

// Processes.
const (
	SchedulerA = "gpu-scheduler-a"
	SchedulerB = "gpu-scheduler-b"
	Controller = "gpu-controller"
	APIServer  = "kube-apiserver"
)

// Loner is the node whose agent is a process of its own.
const Loner = "b-0"

// World is a cluster that faults are injected into.
type World struct {
	*local.Cluster
	setup   Setup
	Client  kubernetes.Interface
	Objects dynamic.Interface
	// MetricsPort is gpu-controller's.
	MetricsPort int

	mu    sync.Mutex
	loner *local.Serving
	runs  int
}

// Start brings a cluster up; it is stopped with Stop.
func Start(ctx context.Context, s Setup) (*World, error) {
	if s.Say == nil {
		s.Say = func(string, ...any) {}
	}
	if err := local.RequirePrograms(s.Bin, "gpu-scheduler", "gpu-controller", "gpu-agent"); err != nil {
		return nil, err
	}
	cluster, err := local.Start(ctx, local.Options{Dir: s.Dir, Bin: s.Bin, ControllerManager: true, KWOK: true, KeepRestarting: true})
	if err != nil {
		return nil, err
	}
	w := &World{Cluster: cluster, setup: s}
	if err := w.prepare(ctx); err != nil {
		_ = cluster.Stop() // the first error says more
		return nil, err
	}
	return w, nil
}

// agents is a DaemonSet whose pods stand for the agents: KWOK runs no program, so the
// processes beside it are what works. FollowAgents keeps them together.
const agents = `
apiVersion: v1
kind: Namespace
metadata: {name: tangram-system}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: gpu-agent, namespace: tangram-system}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: gpu-agent}}
  template:
    metadata: {labels: {app.kubernetes.io/name: gpu-agent}}
    spec:
      schedulerName: gpu-scheduler
      tolerations: [{operator: Exists}]
      containers: [{name: agent, image: gpu-agent}]
`

func (w *World) prepare(ctx context.Context) error {
	c := rest.CopyConfig(w.RESTConfig())
	c.QPS, c.Burst, c.Timeout = -1, 0, 10*time.Second
	var err error
	if w.Client, err = kubernetes.NewForConfig(c); err != nil {
		return err
	}
	if w.Objects, err = dynamic.NewForConfig(c); err != nil {
		return err
	}
	for _, docs := range [][]byte{config.CRDs(), config.VolcanoCRDs(), config.RBAC(), config.ControllerRBAC(), config.AgentRBAC(), []byte(agents)} {
		if err := w.ApplyManifests(ctx, docs); err != nil {
			return err
		}
	}
	for pool, count := range map[string]int{"a": w.setup.Nodes - 1, "b": 1} {
		f, err := w.pool(pool, count)
		if err != nil {
			return err
		}
		if err := w.CreateNodes(ctx, f); err != nil {
			return err
		}
	}
	if _, err := w.startAgent(ctx, "a"); err != nil {
		return err
	}
	if w.loner, err = w.startAgent(ctx, "b"); err != nil {
		return err
	}
	for _, pool := range []string{"a", "b"} {
		f, err := w.pool(pool, map[string]int{"a": w.setup.Nodes - 1, "b": 1}[pool])
		if err != nil {
			return err
		}
		if err := w.AwaitFleet(ctx, f); err != nil {
			return err
		}
	}
	for _, name := range []string{SchedulerA, SchedulerB} {
		if err := w.startScheduler(ctx, name); err != nil {
			return err
		}
	}
	return w.startController(ctx)
}

func (w *World) pool(name string, count int) (*fleet.Fleet, error) {
	text := fmt.Sprintf("pools: [{name: %s, count: %d, gpu: {model: A100-80GB, count: 8}}]", name, count)
	if err := os.WriteFile(w.fleetFile(name), []byte(text), 0o600); err != nil {
		return nil, err
	}
	return fleet.Parse(name, []byte(text))
}

func (w *World) fleetFile(pool string) string { return filepath.Join(w.Dir(), "fleet-"+pool+".yaml") }

func (w *World) startAgent(ctx context.Context, pool string) (*local.Serving, error) {
	w.mu.Lock()
	w.runs++
	name := fmt.Sprintf("gpu-agent-%s-%d", pool, w.runs)
	w.mu.Unlock()
	return w.Launch(ctx, local.Component{
		Name: "gpu-agent", As: name,
		Flags: append([]string{"--backend=simulated", "--fleet=" + w.fleetFile(pool)}, w.setup.Agent...),
	})
}

func (w *World) startScheduler(ctx context.Context, name string) error {
	_, err := w.Launch(ctx, local.Component{Name: "gpu-scheduler", As: name, Config: config.Scheduler(), Restart: true, Lease: w.setup.Lease})
	return err
}

func (w *World) startController(ctx context.Context) error {
	file := filepath.Join(w.Dir(), "recovery.yaml")
	if err := os.WriteFile(file, []byte(w.setup.Recovery), 0o600); err != nil {
		return err
	}
	p, err := w.Launch(ctx, local.Component{Name: "gpu-controller", As: Controller, Restart: true, Ready: "/readyz", Flags: []string{"--recovery-config=" + file}})
	if err != nil {
		return err
	}
	w.MetricsPort = p.Port
	return nil
}

// KillAgent ends the loner's agent for good.
func (w *World) KillAgent() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.loner.Kill()
}

// FollowAgents plays kubelet for the loner's agent until the context ends: when its pod is
// replaced, the process is started anew.
func (w *World) FollowAgents(ctx context.Context) {
	last := ""
	for ctx.Err() == nil {
		if uid := w.agentPod(ctx, Loner); uid != "" && uid != last {
			if last != "" {
				w.mu.Lock()
				old := w.loner
				w.mu.Unlock()
				_ = old.Kill() // it may have ended already
				started, err := w.startAgent(ctx, "b")
				if err == nil {
					w.mu.Lock()
					w.loner = started
					w.mu.Unlock()
				} else if ctx.Err() == nil {
					w.setup.Say("the agent of %s did not start: %v", Loner, err)
				}
			}
			last = uid
		}
		wait(ctx, 200*time.Millisecond)
	}
}

// agentPod is the UID of the agent's pod on a node; empty when there is none.
func (w *World) agentPod(ctx context.Context, node string) string {
	list, err := w.Client.CoreV1().Pods("tangram-system").List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=gpu-agent", FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return ""
	}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil && p.Status.Phase == v1.PodRunning {
			return string(p.UID)
		}
	}
	return ""
}

// GPUNode reads one.
func (w *World) GPUNode(ctx context.Context, name string) (*v1alpha1.GPUNode, error) {
	o, err := w.Objects.Resource(v1alpha1.GPUNodes).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var gn v1alpha1.GPUNode
	return &gn, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &gn)
}

// Break sets the faults of a node's simulated devices; empty for none.
func (w *World) Break(ctx context.Context, node, faults string) error {
	if _, err := fleet.ParseFaults(faults); err != nil {
		return err
	}
	var value any
	if faults != "" {
		value = faults
	}
	return w.annotate(ctx, func(patch []byte) error {
		_, err := w.Objects.Resource(v1alpha1.GPUNodes).Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}, names.AnnotationSimulatedFaults, value)
}

func (w *World) annotate(ctx context.Context, patch func([]byte) error, key string, value any) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	if err != nil {
		return err
	}
	for try := 0; ; try++ { // the API server may be the one that was killed
		if err = patch(body); err == nil || try > 50 || ctx.Err() != nil || apierrors.IsInvalid(err) {
			return err
		}
		wait(ctx, 200*time.Millisecond)
	}
}

// AnnotateNode sets an annotation of a Node; nil removes it.
func (w *World) AnnotateNode(ctx context.Context, node, key string, value any) error {
	return w.annotate(ctx, func(patch []byte) error {
		_, err := w.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}, key, value)
}

// LoseNode makes a node one whose kubelet is silent, FindNode brings it back. Its pods'
// deletion is carried out all the same: the local cluster has no kubelets that could hang.
func (w *World) LoseNode(ctx context.Context, node string) error {
	if err := w.AnnotateNode(ctx, node, names.AnnotationSimulatedLost, "true"); err != nil {
		return err
	}
	now := metav1.Now().UTC().Format(time.RFC3339)
	_, err := w.Client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown","message":"Kubelet stopped posting node status.","lastTransitionTime":"`+now+`"}]}}`), metav1.PatchOptions{}, "status")
	return err
}

// FindNode ends LoseNode.
func (w *World) FindNode(ctx context.Context, node string) error {
	return w.AnnotateNode(ctx, node, names.AnnotationSimulatedLost, nil)
}

// DevicesOf are the indexes of the devices that a pod holds.
func DevicesOf(p *v1.Pod) (out []int) {
	r, err := record.Decode(p.Annotations[names.AnnotationDevices])
	if err != nil {
		return nil
	}
	for _, c := range r.Containers {
		for _, d := range c.Devices {
			out = append(out, d.Index)
		}
	}
	return out
}

// Isolated says which of a GPUNode's devices gpu-controller has isolated, by index.
func Isolated(gn *v1alpha1.GPUNode) (out []int) {
	for _, entry := range gn.Spec.Cordoned {
		id, ours := strings.CutPrefix(entry, names.CordonedBy)
		for _, d := range gn.Spec.Devices {
			if ours && id == d.UUID {
				out = append(out, int(d.Index))
			}
		}
	}
	return out
}

// wait sleeps, or until the context ends.
func wait(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}
