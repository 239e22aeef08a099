package state

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/core/model"
)

// vetoes are nodes that kube-scheduler's filters refused for a request although a
// plan wanted them. They hold until the node changes or for a while, whatever comes
// first: what core cannot know must not be planned again at once. The first one is
// short, each further one twice as long, until the node takes such a pod. While
// kube-scheduler has only not heard yet what the ledger has (a pod that ended), none
// is counted.
type vetoes map[veto]vetoed

type veto struct {
	shape string
	node  model.NodeID
}

type vetoed struct {
	version string // of the node
	until   time.Time
	strikes int
	// forget is when a veto that ended (until is zero) is forgotten.
	forget time.Time
	// except are the nodes that a veto of everyNode is not about.
	except sets.Set[string]
}

const (
	vetoFirst = 10 * time.Millisecond
	vetoMost  = 15 * time.Second
)

// everyNode as the node of a veto: the pod is refused wherever it goes.
const everyNode model.NodeID = ""

// Only takes note that a member's pod may go to some nodes only, by rules of its own
// that core does not know: the nodes its volumes are on.
func (c *Cluster) Only(pod *v1.Pod, nodes sets.Set[string], said string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gangs.groups[c.gangs.member[model.HolderID(pod.UID)]]
	if g == nil || g.pods[model.HolderID(pod.UID)] == nil {
		return
	}
	g.refusal = said
	key := veto{g.pods[model.HolderID(pod.UID)].likeness().shape, everyNode}
	c.gangs.vetoes[key] = vetoed{until: time.Now().Add(vetoMost), except: nodes}
	c.gangs.anyVeto.Store(true)
	time.AfterFunc(vetoMost+time.Millisecond, c.kick)
}

// Veto takes note that a node refused a member's pod, or everyNode would, and what
// was said; late when kube-scheduler judged by pods that are gone.
func (c *Cluster) Veto(pod *v1.Pod, node model.NodeID, said string, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gangs.groups[c.gangs.member[model.HolderID(pod.UID)]]
	if g == nil || g.pods[model.HolderID(pod.UID)] == nil {
		return
	}
	version := ""
	if n, err := c.nodes.Get(string(node)); err == nil {
		version = n.ResourceVersion
	}
	key := veto{g.pods[model.HolderID(pod.UID)].likeness().shape, node}
	v := vetoed{version: version, strikes: c.gangs.vetoes[key].strikes}
	pause := vetoFirst
	if !late {
		g.refusal = said
		pause = min(vetoMost, vetoFirst<<min(v.strikes, 10))
		v.strikes++
	}
	v.until = time.Now().Add(pause)
	c.gangs.vetoes[key] = v
	c.gangs.anyVeto.Store(true)
	time.AfterFunc(pause+time.Millisecond, c.kick)
}

// Took takes note that a node took a member's pod: what was held against it is over.
func (c *Cluster) Took(pod *v1.Pod, node model.NodeID) {
	if !c.gangs.anyVeto.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.gangs.groups[c.gangs.member[model.HolderID(pod.UID)]]; g != nil && g.pods[model.HolderID(pod.UID)] != nil {
		delete(c.gangs.vetoes, veto{g.pods[model.HolderID(pod.UID)].likeness().shape, node})
		// On which nodes it may go is still true: others of its gang may fail.
		if every := (veto{g.pods[model.HolderID(pod.UID)].likeness().shape, everyNode}); c.gangs.vetoes[every].except == nil {
			delete(c.gangs.vetoes, every)
		}
	}
}

// Gone says whether a pod that kube-scheduler counts does not exist any more, or has
// ended: it has not heard of that yet.
func (c *Cluster) Gone(pod *v1.Pod) bool {
	now, err := c.pods.Pods(pod.Namespace).Get(pod.Name)
	return err != nil || now.UID != pod.UID || now.Status.Phase == v1.PodSucceeded || now.Status.Phase == v1.PodFailed
}

// forgive ends vetoes that hold no more, and says whether there were any. Strikes are
// remembered for a while.
func (c *Cluster) forgive(now time.Time) (ended bool) {
	for key, v := range c.gangs.vetoes { // each for itself
		version := ""
		if n, err := c.nodes.Get(string(key.node)); err == nil {
			version = n.ResourceVersion
		}
		switch held := !v.until.IsZero(); {
		case v.version != version || !held && now.After(v.forget):
			delete(c.gangs.vetoes, key)
			ended = ended || held
		case held && now.After(v.until):
			v.until, v.forget = time.Time{}, now.Add(vetoMost)
			c.gangs.vetoes[key] = v
			ended = true
		}
	}
	c.gangs.anyVeto.Store(len(c.gangs.vetoes) > 0)
	return ended
}

// may is the planner's question whether a node would take a request's pods: what can
// be told without a scheduling cycle, and what earlier cycles have shown.
func (c *Cluster) may(r *model.Request, id model.NodeID) bool {
	m := c.podOf[r]
	if m == nil {
		return c.ever(r, id)
	}
	if !m.group.rests.IsZero() && time.Now().Before(m.group.rests) {
		return false
	}
	if len(c.gangs.vetoes) > 0 {
		shape := m.likeness().shape
		every := c.gangs.vetoes[veto{shape, everyNode}]
		if !c.gangs.vetoes[veto{shape, id}].until.IsZero() || !every.until.IsZero() && !every.except.Has(string(id)) {
			return false
		}
	}
	return c.ever(r, id) && !c.crowded(m, id)
}

// ever is the same question, whoever is there and whatever was said before: what does
// not pass by itself.
func (c *Cluster) ever(r *model.Request, id model.NodeID) bool {
	node, err := c.nodes.Get(string(id))
	if err != nil {
		return false
	}
	m := c.podOf[r]
	if m == nil {
		return !node.Spec.Unschedulable
	}
	pod := m.pod
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
