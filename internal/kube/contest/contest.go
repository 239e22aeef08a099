package contest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/report"
)

// Grace is how long two records may name one device on a node with an agent. The agent
// corrects records to what containers really have, one pod after the other: while two pods
// exchange devices, both name one. Kubelet never gives a device to two containers, so it is
// a record that is wrong, and the agent will say so. On a node without an agent no record is
// corrected, and there is nothing to wait for.
const Grace = 30 * time.Second

// Contests are the pods whose records cannot be honoured. Not safe for concurrent use: the
// engine calls it under its lock.
type Contests struct {
	ledger coreanswer.Nodes
	pods   corelisters.PodLister
	find   func(uid string) *v1.Pod // find finds a pod by its UID; nil when there is none
	Grace  time.Duration            // how long records may contradict each other on a node with an agent
	byUID  map[string]*contest
	agents map[model.NodeID]bool // the nodes with an agent, which corrects records
}

// contest is a pod whose record names a device that another holds which was seen first.
type contest struct {
	node    model.NodeID
	pod     *v1.Pod
	message string
	// record is the pod's, and since when it is contested as it is.
	record string
	since  time.Time
	// open: the record is contested now. told: it was reported, once, since which pod holds a
	// device may change with every pod that ends. evicted: the pod was told to go.
	open, told, evicted bool
	// certain: this process itself gave the device to the other. Of two pods known by their
	// records only, one record may be forged, and only the node's agent can tell which.
	certain bool
}

// New returns a Contests without any.
func New(l coreanswer.Nodes, pods corelisters.PodLister, find func(uid string) *v1.Pod) *Contests {
	return &Contests{ledger: l, pods: pods, find: find, Grace: Grace, byUID: map[string]*contest{}, agents: map[model.NodeID]bool{}}
}

// SetAgent says whether a node has an agent.
func (c *Contests) SetAgent(node model.NodeID, has bool) {
	if delete(c.agents, node); has {
		c.agents[node] = true
	}
}

// Forget forgets a pod that is gone.
func (c *Contests) Forget(uid string) { delete(c.byUID, uid) }

// Look takes note of pods on a node whose records cannot be honoured, because others hold
// the devices they name, and of those that can again. It returns what is to be reported.
func (c *Contests) Look(id model.NodeID, now time.Time) []report.Complaint {
	found := c.ledger.Contested(id)
	if len(found) == 0 && len(c.byUID) == 0 {
		return nil // as nearly always
	}
	still := map[string]bool{}
	for _, f := range found {
		uid := dialect.UIDOf(f.Holder)
		x := c.byUID[uid]
		if x == nil || x.node != id {
			x = &contest{node: id}
			c.byUID[uid] = x
		}
		still[uid] = true
		if x.pod = c.latest(uid, x.pod); x.pod != nil {
			if text := x.pod.Annotations[names.AnnotationDevices]; !x.open || text != x.record {
				x.record, x.since = text, now
			}
		}
		x.certain = f.Certain
		if x.open = true; x.told {
			continue
		}
		x.message = dialect.Contested(f)
		if older := c.find(dialect.UIDOf(c.ledger.HolderOf(id, f.Index))); older != nil {
			holder := fmt.Sprintf("pod %s/%s", older.Namespace, older.Name)
			if x.pod == nil || x.pod.Namespace != older.Namespace {
				holder = "a pod of another namespace" // the message is an event that the pod's owner reads
			}
			x.message += "; " + holder + " holds it"
		}
	}
	for uid, x := range c.byUID { // each for itself
		if x.node != id || still[uid] {
			continue
		}
		if x.open = false; !x.told {
			delete(c.byUID, uid)
		}
	}
	return c.Due(now)
}

// latest is a pod as the store has it now, found before or not; nil when it is gone.
func (c *Contests) latest(uid string, before *v1.Pod) *v1.Pod {
	if before == nil {
		return c.find(uid)
	}
	if p, err := c.pods.Pods(before.Namespace).Get(before.Name); err == nil && string(p.UID) == uid {
		return p
	}
	return nil
}

// seriousAt is when a contest is taken seriously.
func (c *Contests) seriousAt(x *contest) time.Time {
	if c.agents[x.node] {
		return x.since.Add(c.Grace)
	}
	return x.since
}

// serious are the UIDs of pods whose records are contested and have been for long enough,
// sorted.
func (c *Contests) serious(now time.Time) []string {
	if len(c.byUID) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.byUID)), func(uid string) bool {
		x := c.byUID[uid]
		return !x.open || x.pod == nil || now.Before(c.seriousAt(x))
	})
}

// Due are the contests to be reported now, each once.
func (c *Contests) Due(now time.Time) (out []report.Complaint) {
	for _, uid := range c.serious(now) {
		if x := c.byUID[uid]; !x.told {
			x.told = true
			out = append(out, report.Complaint{About: report.PodRef(x.pod), Reason: dialect.ContestedRecord, Message: x.message})
		}
	}
	return out
}

// Eviction is a pod on a device that this process gave to another pod.
type Eviction struct {
	Pod *v1.Pod
	Why string
}

// Evictions are the pods on devices which this process gave to others, and that have not
// been told to go, of those for which may is true. All others are only reported.
func (c *Contests) Evictions(now time.Time, may func(*v1.Pod) bool) (out []Eviction) {
	for _, uid := range c.serious(now) {
		if x := c.byUID[uid]; x.certain && !x.evicted && x.pod.DeletionTimestamp == nil && may(x.pod) {
			x.evicted = true
			out = append(out, Eviction{x.pod, x.message})
		}
	}
	return out
}

// EvictionFailed makes a pod be evicted again.
func (c *Contests) EvictionFailed(uid string) {
	if x := c.byUID[uid]; x != nil {
		x.evicted = false
	}
}

// Next is when the next contest is taken seriously; zero when none is open.
func (c *Contests) Next() (next time.Time) {
	for _, x := range c.byUID { // the soonest does not depend on the order
		if at := c.seriousAt(x); x.open && !x.told && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// Message says in what a pod's record contradicts another; empty when it does not.
func (c *Contests) Message(uid string) string {
	if x := c.byUID[uid]; x != nil && x.open {
		return x.message
	}
	return ""
}

// Size is how many pods are remembered.
func (c *Contests) Size() int { return len(c.byUID) }
