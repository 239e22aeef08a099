package autoscale

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/test/cluster"
)

const (
	// poolLabel keeps the tests apart: nodes and pods of a test have it.
	poolLabel  = "test-pool"
	zoneLabel  = "topology.kubernetes.io/zone"
	rackLabel  = "topology.kubernetes.io/rack"
	ownedLabel = "karpenter.sh/nodepool"
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
type world struct{ *cluster.World }

func newWorld(t *testing.T) *world {
	t.Helper()
	types := filepath.Join(t.TempDir(), "machines.json")
	if err := os.WriteFile(types, []byte(machines), 0o600); err != nil {
		t.Fatal(err)
	}
	o := cluster.Whole("", config.Autoscaling()).With(cluster.Operator{Name: "karpenter", Env: []string{
		"INSTANCE_TYPES_FILE_PATH=" + types, "BATCH_IDLE_DURATION=500ms", "BATCH_MAX_DURATION=3s", "LOG_LEVEL=debug",
	}})
	o.Programs, o.Tangram = []string{"gpu-scheduler", "gpu-controller"}, nil // they start when Karpenter's kinds are there
	w := &world{cluster.ForTest(t, o)}
	w.Apply(class)
	w.Scheduler(cluster.QueueArguments("reportEvery: 1s", "autoscaling: {enabled: true, patience: 20s}"))
	w.Controller(cluster.Alone, "--recovery=false", "--autoscaling")
	return w
}

// pool is one test's part of the cluster.
type pool struct {
	*world
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
	w = &world{w.In(t)}
	w.Apply(docs)
	return &pool{w, name}
}

// stock makes nodes in a rack that are there already and not Karpenter's, and waits until
// they are ready.
func (p *pool) stock(rack string, count int) {
	p.T.Helper()
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
		_, err := p.Client.CoreV1().Nodes().Create(p.T.Context(), n, metav1.CreateOptions{})
		p.Must(err)
		made = append(made, name)
	}
	for _, name := range made {
		p.Complete("node "+name+" is ready", func() string {
			n := cluster.Read[v1.Node](p.World, cluster.Nodes, name)
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
func (p *pool) pod(name string, gpus int, change ...cluster.Change) {
	p.T.Helper()
	p.Create(cluster.Pod(p.name+"-"+name, gpus, append([]cluster.Change{cluster.Label(poolLabel, p.name), cluster.On(poolLabel, p.name)}, change...)...))
}

// gang creates the first members of a gang of a size.
func (p *pool) gang(name string, size, exist, gpus int, change ...cluster.Change) (members []string) {
	p.T.Helper()
	for i := range exist {
		member := fmt.Sprintf("%s-%d", name, i)
		p.pod(member, gpus, append([]cluster.Change{cluster.Gang(p.name+"-"+name, size)}, change...)...)
		members = append(members, member)
	}
	return members
}

// required makes members share a domain.
func required(level string) cluster.Change {
	return cluster.Annotate(names.AnnotationTopology, "required="+level)
}

// get is a pod as it is now; nil when there is none.
func (p *pool) get(name string) *v1.Pod { return p.Find(p.name + "-" + name) }

// delete removes a pod at once.
func (p *pool) delete(name string) {
	p.T.Helper()
	p.DeleteIf(p.name + "-" + name)
}

// bound waits until pods are bound and returns their nodes, in order.
func (p *pool) bound(pods ...string) (nodes []string) {
	p.T.Helper()
	for _, name := range pods {
		p.Complete("pod "+name+" is bound", func() string {
			pod := p.get(name)
			if pod == nil {
				return "it is gone"
			}
			if pod.Spec.NodeName == "" {
				return cluster.Waiting(pod)
			}
			nodes = append(nodes, pod.Spec.NodeName)
			return ""
		})
	}
	return nodes
}

// waits waits until pods are told that they wait, for a reason.
func (p *pool) waits(reason string, pods ...string) {
	p.T.Helper()
	for _, name := range pods {
		p.Complete("pod "+name+" is told "+reason, func() string {
			pod := p.get(name)
			if pod == nil {
				return "it is gone"
			}
			if text := cluster.Waiting(pod); !strings.HasPrefix(text, reason+": ") {
				return text
			}
			return ""
		})
	}
}

var nodeClaims = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}

// rented is how many nodes Karpenter has, or has asked for.
func (p *pool) rented() int {
	p.T.Helper()
	return len(p.List(nodeClaims, ownedLabel+"="+p.name))
}

// nodes are Karpenter's nodes of the pool, by name.
func (p *pool) nodes() map[string]*v1.Node {
	p.T.Helper()
	out := map[string]*v1.Node{}
	for _, n := range cluster.ReadAll[v1.Node](p.World, cluster.Nodes, ownedLabel+"="+p.name) {
		out[n.Name] = &n
	}
	return out
}

// exactly fails unless Karpenter has rented so many nodes, also after it has looked once
// more: it must rent one for a pod that comes now, and only that one. free is how many
// nodes are free, which are filled first.
func (p *pool) exactly(n, free int) {
	p.T.Helper()
	var control []string
	for i := range free + 1 {
		control = append(control, fmt.Sprint("control", i))
		p.pod(control[i], 8)
	}
	p.bound(control...)
	if got := p.rented(); got != n+1 {
		p.T.Errorf("%d nodes were added, want %d", got-1, n)
	}
}

// placeholders are the pods that stand for members of the pool's pods.
func (p *pool) placeholders() (out []v1.Pod) {
	p.T.Helper()
	for _, x := range p.Within("tangram-system").Pods(names.LabelPlaceholder) {
		if strings.HasPrefix(x.Annotations[names.AnnotationPlaceholderFor], "default/"+p.name+"-") {
			out = append(out, x)
		}
	}
	return out
}

// patch applies a merge patch to a pod.
func (p *pool) patch(name, patch string) {
	p.T.Helper()
	p.Patch(cluster.Pods, p.name+"-"+name, patch)
}
