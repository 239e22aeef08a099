package autoscale

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/internal/operators"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

const (
	// poolLabel keeps the tests apart: nodes and pods of a test have it.
	poolLabel  = "test-pool"
	zoneLabel  = "topology.kubernetes.io/zone"
	rackLabel  = "topology.kubernetes.io/rack"
	ownedLabel = "karpenter.sh/nodepool"

	// patience is how long anything may take. Karpenter waits 15 seconds before it removes
	// a node, and looks every 10.
	patience = 2 * time.Minute
)

// machines is what Karpenter can rent: one kind of node, with 8 GPUs.
const machines = `[{"name": "gpu-8", "architecture": "amd64", "operatingSystems": ["linux"],
  "resources": {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti", "nvidia.com/gpu": "8"},
  "offerings": [{"Price": 10, "Available": true, "Requirements": [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}]}]}]`

const class = `
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: small}
spec: {capability: {nvidia.com/gpu: "8"}}
`

// world is the cluster of all tests.
type world struct{ *cluster.Cluster }

func newWorld(t *testing.T) *world {
	t.Helper()
	bin := cluster.Bin(t, "kube-controller-manager", "kwok", "gpu-scheduler", "gpu-controller")
	cluster.Built(t, operators.Require(bin, "karpenter"))
	w := &world{cluster.ForTest(t, cluster.Options{
		Kubernetes: local.Options{Bin: bin, ControllerManager: true, KWOK: true},
		Manifests:  [][]byte{config.CRDs(), config.VolcanoCRDs(), config.RBAC(), config.ControllerRBAC(), config.Autoscaling()},
	})}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	types := filepath.Join(w.Dir(), "machines.json")
	if err := os.WriteFile(types, []byte(machines), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := operators.Run(ctx, "karpenter", operators.Options{Cluster: w.Cluster.Cluster, Bin: bin, Env: []string{
		"INSTANCE_TYPES_FILE_PATH=" + types, "BATCH_IDLE_DURATION=500ms", "BATCH_MAX_DURATION=3s", "LOG_LEVEL=debug",
	}}); err != nil {
		t.Fatal(err)
	}
	if err := w.ApplyManifests(ctx, []byte(class)); err != nil {
		t.Fatal(err)
	}
	for _, p := range []local.Component{
		{Name: "gpu-scheduler", Config: schedulerConfig(), Flags: []string{cluster.Alone}},
		{Name: "gpu-controller", Flags: []string{cluster.Alone, "--recovery=false", "--autoscaling"}},
	} {
		if _, err := w.Launch(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// schedulerConfig is the default configuration with autoscaling.
func schedulerConfig() []byte {
	const before = "      preemption: true\n"
	text := string(config.Scheduler())
	at := strings.Index(text, before) + len(before)
	return []byte(text[:at] + "      reportEvery: 1s\n      autoscaling: {enabled: true, patience: 20s}\n" + text[at:])
}

// pool is one test's part of the cluster.
type pool struct {
	*world
	t    *testing.T
	name string
}

// newPool makes a NodePool whose nodes can be in some racks. Karpenter removes what it can
// after a time, or never.
func (w *world) newPool(t *testing.T, name, removeAfter string, racks ...string) *pool {
	t.Helper()
	docs := fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  template:
    metadata: {labels: {%[2]s: %[1]s}}
    spec:
      expireAfter: Never
      requirements:
      - {key: %[3]s, operator: In, values: [%[4]s]}
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: %[5]s, budgets: [{nodes: "100%%"}]}
`, name, poolLabel, rackLabel, strings.Join(racks, ", "), removeAfter)
	if err := w.ApplyManifests(t.Context(), []byte(docs)); err != nil {
		t.Fatal(err)
	}
	return &pool{w, t, name}
}

// stock makes nodes in a rack that are there already and not Karpenter's, and waits until
// they are ready.
func (p *pool) stock(rack string, count int) {
	p.t.Helper()
	has := v1.ResourceList{names.ResourceNVIDIA: resource.MustParse("8"), "cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("110")}
	var made []string
	for i := range count {
		name := fmt.Sprintf("%s-%s-%d", p.name, rack, i)
		n := &v1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:        name,
				Labels:      map[string]string{poolLabel: p.name, zoneLabel: "z1", rackLabel: rack, v1.LabelHostname: name, v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64"},
				Annotations: map[string]string{fleet.AnnotationSimulated: fleet.Simulated},
			},
			Status: v1.NodeStatus{Capacity: has, Allocatable: has},
		}
		if _, err := p.Client.CoreV1().Nodes().Create(p.t.Context(), n, metav1.CreateOptions{}); err != nil {
			p.t.Fatal(err)
		}
		made = append(made, name)
	}
	for _, name := range made {
		p.await("node "+name+" is ready", func() string {
			n, err := p.Client.CoreV1().Nodes().Get(p.t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			for _, c := range n.Status.Conditions {
				if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue && len(n.Spec.Taints) == 0 {
					return ""
				}
			}
			return fmt.Sprint(n.Spec.Taints)
		})
	}
}

// pod creates a pod of the pool.
func (p *pool) pod(name string, gpus int64, change ...func(*v1.Pod)) {
	p.t.Helper()
	pod := cluster.Pod("default", p.name+"-"+name, gpus, cluster.Label(poolLabel, p.name))
	pod.Spec.NodeSelector = map[string]string{poolLabel: p.name}
	for _, c := range change {
		c(pod)
	}
	p.Create(p.t, pod)
}

// gang creates the first members of a gang of a size.
func (p *pool) gang(name string, size, exist int, gpus int64, change ...func(*v1.Pod)) (members []string) {
	p.t.Helper()
	for i := range exist {
		member := fmt.Sprintf("%s-%d", name, i)
		p.pod(member, gpus, append([]func(*v1.Pod){func(x *v1.Pod) {
			x.Labels[names.LabelGang], x.Labels[names.LabelGangSize] = p.name+"-"+name, fmt.Sprint(size)
		}}, change...)...)
		members = append(members, member)
	}
	return members
}

// required makes members share a domain.
func required(level string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations[names.AnnotationTopology] = "required=" + level }
}

func (p *pool) get(name string) *v1.Pod {
	p.t.Helper()
	pod, err := p.Client.CoreV1().Pods("default").Get(p.t.Context(), p.name+"-"+name, metav1.GetOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		p.t.Fatal(err)
	}
	return pod
}

// delete removes a pod at once.
func (p *pool) delete(name string) {
	p.t.Helper()
	now := int64(0)
	err := p.Client.CoreV1().Pods("default").Delete(p.t.Context(), p.name+"-"+name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		p.t.Fatal(err)
	}
}

// await polls until check returns "", which else says what is missing.
func (p *pool) await(what string, check func() string) {
	p.t.Helper()
	await.Complete(p.t, what, patience, check)
}

// bound waits until pods are bound and returns their nodes, in order.
func (p *pool) bound(pods ...string) (nodes []string) {
	p.t.Helper()
	for _, name := range pods {
		p.await("pod "+name+" is bound", func() string {
			pod := p.get(name)
			if pod == nil {
				return "it is gone"
			}
			if pod.Spec.NodeName == "" {
				return said(pod)
			}
			nodes = append(nodes, pod.Spec.NodeName)
			return ""
		})
	}
	return nodes
}

// waits waits until pods are told that they wait, for a reason.
func (p *pool) waits(reason string, pods ...string) {
	p.t.Helper()
	for _, name := range pods {
		p.await("pod "+name+" is told "+reason, func() string {
			pod := p.get(name)
			if pod == nil {
				return "it is gone"
			}
			if text := said(pod); !strings.HasPrefix(text, reason+": ") {
				return text
			}
			return ""
		})
	}
}

// said is what a pod's condition says.
func said(p *v1.Pod) string {
	if c := cluster.Scheduled(p); c.Type != "" {
		return c.Reason + ": " + c.Message
	}
	return "no condition"
}

var nodeClaims = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}

// rented is how many nodes Karpenter has, or has asked for.
func (p *pool) rented() int {
	p.t.Helper()
	list, err := p.Dynamic.Resource(nodeClaims).List(p.t.Context(), metav1.ListOptions{LabelSelector: ownedLabel + "=" + p.name})
	if err != nil {
		p.t.Fatal(err)
	}
	return len(list.Items)
}

// nodes are Karpenter's nodes of the pool, by name.
func (p *pool) nodes() map[string]*v1.Node {
	p.t.Helper()
	list, err := p.Client.CoreV1().Nodes().List(p.t.Context(), metav1.ListOptions{LabelSelector: ownedLabel + "=" + p.name})
	if err != nil {
		p.t.Fatal(err)
	}
	out := map[string]*v1.Node{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// exactly fails unless Karpenter has rented so many nodes, also after it has looked once
// more: it must rent one for a pod that comes now, and only that one. free is how many
// nodes are free, which are filled first.
func (p *pool) exactly(n, free int) {
	p.t.Helper()
	var control []string
	for i := range free + 1 {
		control = append(control, fmt.Sprint("control", i))
		p.pod(control[i], 8)
	}
	p.bound(control...)
	if got := p.rented(); got != n+1 {
		p.t.Errorf("%d nodes were added, want %d", got-1, n)
	}
}

// placeholders are the pods that stand for members of the pool's pods.
func (p *pool) placeholders() (out []v1.Pod) {
	p.t.Helper()
	list, err := p.Client.CoreV1().Pods("tangram-system").List(p.t.Context(), metav1.ListOptions{LabelSelector: names.LabelPlaceholder})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, x := range list.Items {
		if strings.HasPrefix(x.Annotations[names.AnnotationPlaceholderFor], "default/"+p.name+"-") {
			out = append(out, x)
		}
	}
	return out
}

// patch applies a merge patch to a pod.
func (p *pool) patch(name, patch string) {
	p.t.Helper()
	if _, err := p.Client.CoreV1().Pods("default").Patch(p.t.Context(), p.name+"-"+name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		p.t.Fatal(err)
	}
}
