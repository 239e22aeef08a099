package state

import (
	"time"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/core/model"
)

// vetoes are nodes that kube-scheduler's filters refused for a request although a
// plan wanted them. They hold until the node changes or for a while, whatever comes
// first: what core cannot know must not be planned again at once.
type vetoes map[veto]vetoed

type veto struct {
	shape string
	node  model.NodeID
}

type vetoed struct {
	version string // of the node
	until   time.Time
}

// vetoFor is how long a node is avoided that a filter refused.
const vetoFor = 15 * time.Second

// Veto takes note that a node refused a member's pod.
func (c *Cluster) Veto(pod *v1.Pod, node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gangs.groups[c.gangs.member[model.HolderID(pod.UID)]]
	n, err := c.nodes.Get(node)
	if g == nil || err != nil || g.pods[model.HolderID(pod.UID)] == nil {
		return
	}
	r := g.pods[model.HolderID(pod.UID)].request
	c.gangs.vetoes[veto{shapeOf(r), model.NodeID(node)}] = vetoed{n.ResourceVersion, time.Now().Add(vetoFor)}
	time.AfterFunc(vetoFor, c.kick)
}

// may is the planner's question whether a node would take a request's pods: what can
// be told without a scheduling cycle, and what earlier cycles have shown.
func (c *Cluster) may(r *model.Request, id model.NodeID) bool {
	node, err := c.nodes.Get(string(id))
	if err != nil {
		return false
	}
	if len(c.gangs.vetoes) > 0 {
		key := veto{shapeOf(r), id}
		if v, ok := c.gangs.vetoes[key]; ok {
			if v.version == node.ResourceVersion && time.Now().Before(v.until) {
				return false
			}
			delete(c.gangs.vetoes, key)
		}
	}
	pod := c.podOf[r]
	if pod == nil {
		return !node.Spec.Unschedulable
	}
	if node.Spec.Unschedulable && !corev1helpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations,
		&v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}, false) {
		return false
	}
	if len(node.Spec.Taints) > 0 {
		if _, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations,
			func(t *v1.Taint) bool {
				return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
			}, false); found {
			return false
		}
	}
	if len(pod.Spec.NodeSelector) == 0 && pod.Spec.Affinity == nil {
		return true
	}
	match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && match
}
