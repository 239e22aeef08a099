package state

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/dispatch"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// gangs is what the cluster knows of gangs: which pods belong together, and the
// engine that decides about them. While there are neither gangs nor queues nobody
// has to wait for others, and the engine is idle: pods are then scheduled one by one,
// as they come.
type gangs struct {
	engine *dispatch.Engine
	groups map[dispatch.ID]*group
	// member finds the group of a pod.
	member map[model.HolderID]dispatch.ID
	// real counts groups that are more than a pod that comes alone.
	real int
	// releases are members that may be scheduled now, at the place planned for them.
	releases map[model.HolderID]*Release
	// ranks give each pod its place in kube-scheduler's queue, for as long as it
	// exists: an order that changes would corrupt the heap.
	ranks    map[model.HolderID]int64
	nextRank int64
	// verdicts are reasons that are still to be told to a pod's owner through a
	// scheduling cycle; told is what each gang was last told.
	verdicts map[model.HolderID]string
	told     map[dispatch.ID]string
	vetoes   vetoes
	// spared are pods that could not be evicted, and until when they are left alone.
	spared map[model.HolderID]time.Time
	// news are gangs that changed since the last turn.
	news map[dispatch.ID]bool
	// opened: the engine was stopped, and who waited for it has to be woken.
	opened bool
	// stale: the cluster's total must be counted again.
	stale bool
}

// group is the pods of one gang.
type group struct {
	id   dispatch.ID
	real bool
	pods map[model.HolderID]*memberPod
	// done counts members that succeeded, by task: they need no place any more.
	done map[string]map[model.HolderID]bool
}

type memberPod struct {
	pod     *v1.Pod
	request *model.Request
	membership
}

type membership = dialect.Membership

// Release is a member's permission to be scheduled, and where.
type Release struct {
	Assignment
	Batch *Batch
}

// Batch is members that were planned together: they are bound together, or none.
type Batch struct {
	Gang    dispatch.ID
	Members []model.HolderID
	// Reserved are those that have passed everything but the wait for the others.
	Reserved map[model.HolderID]bool
}

func newGangs() gangs {
	return gangs{
		groups: map[dispatch.ID]*group{}, member: map[model.HolderID]dispatch.ID{}, releases: map[model.HolderID]*Release{},
		ranks: map[model.HolderID]int64{}, verdicts: map[model.HolderID]string{}, told: map[dispatch.ID]string{}, vetoes: vetoes{}, spared: map[model.HolderID]time.Time{}, news: map[dispatch.ID]bool{}, stale: true,
	}
}

// active says whether pods have to wait for others: there are gangs or queues. The
// caller holds the lock.
func (c *Cluster) active() bool { return c.gangs.real > 0 || c.queues.configured() }

// trackPod takes note of a pod's gang. The caller holds the lock. A pod of another
// scheduler counts as soon as it is bound: it uses what queues share.
func (c *Cluster) trackPod(pod *v1.Pod) {
	id := model.HolderID(pod.UID)
	ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
	if ended {
		c.untrackPod(pod, pod.Status.Phase == v1.PodSucceeded)
		return
	}
	if pod.Spec.NodeName == "" && !c.ours[pod.Spec.SchedulerName] {
		return // not ours to place
	}
	m, err := dialect.MembershipOf(pod)
	if err != nil {
		return // the pod is refused, with this error, when it is scheduled
	}
	if m.Owner.Kind != "" {
		if m.Size = c.ownerSize(pod.Namespace, &m); m.Size <= 1 {
			m.Key = ""
		}
	}
	r, err := dialect.RequestOn(pod, c.Levels())
	if err != nil {
		return
	}
	if r == nil {
		if m.Key == "" {
			return // neither a GPU nor a gang
		}
		r = dialect.HostRequest(pod)
	}
	key := dispatch.ID(m.Key)
	real := m.Key != ""
	if !real {
		key = dispatch.ID("pod/" + string(pod.UID))
	}
	if old, ok := c.gangs.member[id]; ok && old != key {
		c.untrackPod(pod, false)
	}
	g := c.gangs.groups[key]
	if g == nil {
		g = &group{id: key, real: real, pods: map[model.HolderID]*memberPod{}, done: map[string]map[model.HolderID]bool{}}
		c.gangs.groups[key] = g
		if real {
			c.gangs.real++
			if c.gangs.real == 1 && !c.queues.configured() {
				c.gangs.member[id] = key
				g.pods[id] = &memberPod{pod, r, m}
				c.startEngine()
				return
			}
		}
	}
	c.gangs.member[id] = key
	if old := g.pods[id]; old != nil {
		delete(c.podOf, old.request)
	}
	g.pods[id] = &memberPod{pod, r, m}
	c.tellEngine(g)
}

// untrackPod forgets a pod that ended or is gone.
func (c *Cluster) untrackPod(pod *v1.Pod, succeeded bool) {
	id := model.HolderID(pod.UID)
	delete(c.gangs.releases, id)
	delete(c.gangs.ranks, id)
	delete(c.gangs.verdicts, id)
	key, ok := c.gangs.member[id]
	if !ok {
		return
	}
	delete(c.gangs.member, id)
	g := c.gangs.groups[key]
	delete(c.podOf, g.pods[id].request)
	if m := g.pods[id]; succeeded {
		if g.done[m.Task] == nil {
			g.done[m.Task] = map[model.HolderID]bool{}
		}
		g.done[m.Task][id] = true
	}
	delete(g.pods, id)
	if len(g.pods) > 0 {
		c.tellEngine(g)
		return
	}
	delete(c.gangs.groups, key)
	delete(c.gangs.told, key)
	if c.gangs.engine != nil {
		c.gangs.engine.Withdraw(key)
	}
	if g.real {
		if c.gangs.real--; !c.active() {
			c.stopEngine()
		}
	}
}

// startEngine begins to decide about all pods together. The caller holds the lock.
func (c *Cluster) startEngine() {
	options := dispatch.DefaultOptions()
	options.Weights = c.weights
	options.May = c.may
	options.Evictable = c.evictable
	tree, err := arbiter.NewTree(c.queues.tree, nil)
	if err != nil { // queues are checked when they come
		tree, _ = arbiter.NewTree(nil, nil)
	}
	c.gangs.engine = dispatch.New(c.ledger, c.planner, tree, options)
	c.gangs.stale = true
	for _, id := range slices.Sorted(maps.Keys(c.gangs.groups)) {
		c.tellEngine(c.gangs.groups[id])
	}
	c.kick()
}

// stopEngine lets pods be scheduled one by one again.
func (c *Cluster) stopEngine() {
	c.gangs.engine = nil
	clear(c.gangs.verdicts)
	c.gangs.opened = true
	c.kick()
}

// tellEngine tells the engine what is known of a gang.
func (c *Cluster) tellEngine(g *group) {
	e := c.gangs.engine
	if e == nil {
		return
	}
	gang, bound := c.describe(g)
	if len(gang.Roles) == 0 || gang.Validate() != nil {
		e.Withdraw(g.id)
		return
	}
	_ = e.Submit(gang) // validated
	c.gangs.news[g.id] = true
	for _, m := range bound {
		if e.NodeOf(model.HolderID(m.pod.UID)) == "" {
			e.Found(g.id, model.HolderID(m.pod.UID), model.NodeID(m.pod.Spec.NodeName), dialect.BoundSince(m.pod)*1e9)
		}
	}
	c.kick()
}

// describe turns a group of pods into a gang, and says which of them are bound.
func (c *Cluster) describe(g *group) (gang dispatch.Gang, bound []*memberPod) {
	gang = dispatch.Gang{ID: g.id, Min: 1, Preemptible: true}
	pods := slices.SortedFunc(maps.Values(g.pods), func(a, b *memberPod) int {
		return compareMembers(a.pod, b.pod)
	})
	if len(pods) == 0 {
		return gang, nil
	}
	first := pods[0]
	gang.Queue, gang.Namespace, gang.User = first.Queue, first.pod.Namespace, first.User
	gang.Require = first.request.Require.Level
	gang.Submitted = first.pod.CreationTimestamp.UnixNano()
	minOf := map[string]int{}
	if g.real {
		gang.Min = max(1, first.Size)
		if first.PodGroup != "" {
			c.groupSays(first.PodGroup, &gang, minOf)
		}
	}
	roles := map[string]int{}
	for _, m := range pods {
		gang.Priority = max(gang.Priority, m.request.Priority)
		gang.Runtime = max(gang.Runtime, m.Runtime)
		gang.MinRuntime = max(gang.MinRuntime, m.MinRuntime)
		gang.Preemptible = gang.Preemptible && m.Preemptible
		gang.NeverPreempts = gang.NeverPreempts || m.pod.Spec.PreemptionPolicy != nil && *m.pod.Spec.PreemptionPolicy == v1.PreemptNever
		shape := m.Task + "\x00" + shapeOf(m.request)
		at, ok := roles[shape]
		if !ok {
			at = len(gang.Roles)
			roles[shape] = at
			c.podOf[m.request] = m.pod
			gang.Roles = append(gang.Roles, dispatch.Role{Name: m.Task, Request: m.request, Min: minOf[m.Task]})
			delete(minOf, m.Task) // counts for the first shape of a task
		}
		gang.Roles[at].Members = append(gang.Roles[at].Members, model.HolderID(m.pod.UID))
		if m.pod.Spec.NodeName != "" {
			bound = append(bound, m)
		}
	}
	// Who succeeded is not missed.
	for task, ids := range g.done {
		gang.Min = max(1, gang.Min-len(ids))
		for i := range gang.Roles {
			if gang.Roles[i].Name == task {
				gang.Roles[i].Min = max(0, gang.Roles[i].Min-len(ids))
				break
			}
		}
	}
	sum := 0
	for i := range gang.Roles {
		sum += gang.Roles[i].Min
	}
	gang.Min = max(gang.Min, sum)
	return gang, bound
}

// compareMembers orders a gang's pods: as they were created, then by name, shorter
// first, so that worker-2 goes before worker-10.
func compareMembers(a, b *v1.Pod) int {
	if c := a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	if len(a.Name) != len(b.Name) {
		return len(a.Name) - len(b.Name)
	}
	switch {
	case a.Name < b.Name:
		return -1
	case a.Name > b.Name:
		return 1
	}
	return 0
}

// shapeOf is equal for requests that ask for the same.
func shapeOf(r *model.Request) string {
	q := *r
	q.Labels = nil
	return fmt.Sprintf("%+v", q)
}
