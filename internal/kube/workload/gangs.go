package state

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// gangs is what the cluster knows of gangs: which pods belong together, and the
// engine that decides about them. While there are neither gangs nor queues nobody
// has to wait for others, and there is no engine: pods are then scheduled one by one,
// as they come.
type gangs struct {
	engine *engine.Engine
	groups map[engine.ID]*group
	// member finds the group of a pod.
	member map[model.HolderID]engine.ID
	// real counts groups that are more than a pod that comes alone.
	real int
	// dirty are groups the engine has not heard the latest of: it is told once per
	// turn, not once per pod.
	dirty map[engine.ID]bool
	// owned finds the pods of a PodGroup, Job, JobSet or RayCluster, owner the reverse.
	owned map[string]map[model.HolderID]*v1.Pod
	owner map[model.HolderID]string

	nextRank int64
	// batches are those whose members are not all at Permit.
	batches map[*Batch]bool
	// rejects are members that must stop waiting at Permit.
	rejects []model.HolderID
	asking  asking
	told    map[engine.ID]*told
	vetoes  vetoes
	anyVeto atomic.Bool
	// spared are pods that could not be evicted, and until when they are left alone.
	spared map[model.HolderID]time.Time
	// awake are pods to be looked at again by kube-scheduler, whatever the engine says.
	awake map[model.HolderID]*v1.Pod
	// rulesChanged: nodes may take whom they refused before.
	rulesChanged bool
	// stale: the cluster's total must be counted again.
	stale bool
}

// group is the pods of one gang.
type group struct {
	id   engine.ID
	real bool
	pods map[model.HolderID]*memberPod
	// done are members that succeeded, with their task, as far as anybody looked: they
	// need no place any more. unsure: nobody has since a member went.
	done   map[model.HolderID]string
	unsure bool
	// counts: its owner says itself how many are left to run, so that nobody looks.
	counts bool
	// recalled: it will be described again when time has passed.
	recalled bool
	// failures counts starts that failed since the last success; rests is until when
	// the gang is left alone after one.
	failures int
	rests    time.Time
	// refusal is what kube-scheduler's filters last said of a place that was planned.
	refusal string
	run     run
}

type memberPod struct {
	pod     *v1.Pod
	request *model.Request
	group   *group
	membership
	like *likeness // nil until somebody asks
}

type membership = dialect.Membership

func newGangs() *gangs {
	return &gangs{
		groups: map[engine.ID]*group{}, member: map[model.HolderID]engine.ID{}, dirty: map[engine.ID]bool{},
		owned: map[string]map[model.HolderID]*v1.Pod{}, owner: map[model.HolderID]string{},
		batches: map[*Batch]bool{}, asking: asking{at: map[engine.ID]time.Time{}}, told: map[engine.ID]*told{}, vetoes: vetoes{},
		spared: map[model.HolderID]time.Time{}, awake: map[model.HolderID]*v1.Pod{}, stale: true,
	}
}

// active says whether pods have to wait for others: there are gangs or queues. The
// caller holds the lock.
func (c *Cluster) active() bool {
	return c.gangs.real > 0 || c.queues.configured() || len(c.quotas) > 0
}

// touch says that the engine must hear the latest of a gang, and its owner why it
// waits, if it does. An engine that starts later hears of all.
func (c *Cluster) touch(id engine.ID) {
	if c.gangs.engine != nil && c.gangs.groups[id] != nil {
		c.gangs.dirty[id] = true
		if c.gangs.told[id] == nil { // else it is asked again in time
			c.gangs.asking.ask(id, time.Now().Add(tellAfter))
		}
	}
}

// trackPod takes note of a pod's gang. The caller holds the lock. A pod of another
// scheduler counts as soon as it is bound: it uses what queues share.
func (c *Cluster) trackPod(pod *v1.Pod) {
	id := model.HolderID(pod.UID)
	if len(c.profiles()) == 0 {
		return // nothing is placed here
	}
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		c.untrackPod(pod)
		return
	}
	m, r := c.memberOf(pod)
	key, real := engine.ID(m.Key), m.Key != ""
	if !real {
		key = engine.ID("pod/" + string(pod.UID))
	}
	old, tracked := c.gangs.member[id]
	if r == nil || tracked && old != key {
		c.untrackPod(pod)
	}
	if tracked && (r == nil || old != key) {
		c.tellEngine(old) // at once: nobody may be in two gangs
		if pod.Spec.NodeName != "" {
			c.hold(pod) // the gang it left let it go
		}
	}
	if r == nil {
		return
	}
	g := c.gangs.groups[key]
	if g == nil {
		g = &group{id: key, real: real, pods: map[model.HolderID]*memberPod{}, counts: m.Owner.Kind == "Job"}
		g.unsure = real && !g.counts
		c.gangs.groups[key] = g
		if real {
			c.gangs.real++
		}
	}
	c.gangs.member[id] = key
	if old := g.pods[id]; old != nil {
		delete(c.podOf, old.request)
	}
	g.pods[id] = &memberPod{pod: pod, request: r, group: g, membership: m}
	if pod.Spec.NodeName != "" {
		g.failures, g.refusal = 0, ""
		g.run.began(pod)
	}
	c.touch(key)
	if c.gangs.engine == nil && c.active() {
		c.startEngine()
	}
	c.kick()
}

// memberOf reads a pod's gang and what it asks for; nil when nobody has to decide
// about it, or not yet.
func (c *Cluster) memberOf(pod *v1.Pod) (m membership, r *model.Request) {
	id := model.HolderID(pod.UID)
	if pod.Spec.NodeName == "" && (!c.Owns(pod.Spec.SchedulerName) || len(pod.Spec.SchedulingGates) > 0) {
		return m, nil // not ours to place, or not ready to be
	}
	m, err := dialect.MembershipOf(pod)
	if err != nil {
		return m, nil // the pod is refused, with this error, when it is scheduled
	}
	c.own(id, pod, &m)
	if known, _ := c.groupOf(pod, &m); !known && pod.Spec.NodeName == "" {
		c.lookAgain(pod)
		return m, nil
	}
	if m.Owner.Kind != "" {
		size, known := c.ownerSize(pod, &m)
		if !known && pod.Spec.NodeName == "" {
			c.lookAgain(pod)
			return m, nil
		}
		if m.Size = size; size <= 1 {
			m.Key = ""
		}
	}
	if leaving(pod) {
		m.Key = "" // what holds devices still, but does no work, is no part of its gang
	}
	r, err = c.requestOf(pod)
	if err != nil || r != nil {
		return m, r
	}
	if m.Key == "" {
		return m, nil // neither a GPU nor a gang
	}
	return m, dialect.HostRequest(pod)
}

// leaving says whether a pod that has a place is going away.
func leaving(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" }

// goneBy is how long after its grace period a pod is still expected to go.
const goneBy = 10 * time.Minute

// own keeps the index of pods by owner.
func (c *Cluster) own(id model.HolderID, pod *v1.Pod, m *membership) {
	key := ""
	switch {
	case m.PodGroup != "":
		key = ownerKey(m.Groups, m.PodGroup)
	case m.Owner.Kind != "":
		key = ownerKey(ownerKinds[m.Owner.Kind], pod.Namespace+"/"+m.Owner.Name)
	}
	if old := c.gangs.owner[id]; old != key {
		c.disown(id)
	}
	if key == "" {
		return
	}
	if c.gangs.owned[key] == nil {
		c.gangs.owned[key] = map[model.HolderID]*v1.Pod{}
	}
	c.gangs.owned[key][id] = pod
	c.gangs.owner[id] = key
}

func (c *Cluster) disown(id model.HolderID) {
	key, ok := c.gangs.owner[id]
	if !ok {
		return
	}
	delete(c.gangs.owner, id)
	if delete(c.gangs.owned[key], id); len(c.gangs.owned[key]) == 0 {
		delete(c.gangs.owned, key)
	}
}

// untrackPod forgets a pod that ended, is gone or is in no gang any more.
func (c *Cluster) untrackPod(pod *v1.Pod) {
	id := model.HolderID(pod.UID)
	c.lose(id)
	key, ok := c.gangs.member[id]
	if !ok {
		return
	}
	delete(c.gangs.member, id)
	g := c.gangs.groups[key]
	m := g.pods[id]
	delete(c.podOf, m.request)
	delete(g.pods, id)
	g.run.lost(pod)
	g.unsure = g.real && !g.counts
	c.touch(key)
	if len(g.pods) > 0 {
		return
	}
	c.learn(g, m)
	c.tellEngine(key)
	delete(c.gangs.groups, key)
	delete(c.gangs.told, key)
	delete(c.gangs.asking.at, key)
	if g.real {
		c.gangs.real--
	}
}

// forgetPod forgets all about a pod that does not exist any more.
func (c *Cluster) forgetPod(pod *v1.Pod) {
	id := model.HolderID(pod.UID)
	c.untrackPod(pod)
	c.disown(id)
	c.standings.ranks.remove(id)
	delete(c.gangs.awake, id)
	delete(c.gangs.spared, id)
}

// startEngine begins to decide about all pods together. The caller holds the lock.
func (c *Cluster) startEngine() {
	if c.gangs.engine != nil {
		return // it goes on
	}
	options := c.options
	options.May, options.Ever = c.may, c.ever
	options.Evictable, options.Budgets = c.evictable, c.budgetsFor
	tree, err := arbiter.NewTree(c.queues.tree, nil)
	if err != nil { // queues are checked when they come
		tree, _ = arbiter.NewTree(nil, nil)
	}
	c.gangs.engine = engine.New(c.ledger, c.planner, tree, options)
	c.setQuotas()
	c.standings.deciding.Store(true)
	c.gangs.stale = true
	for id := range c.gangs.groups {
		c.touch(id)
	}
	c.kick()
}

// stopIdle lets pods be scheduled one by one again when neither gangs nor queues are
// left and nobody waits: whoever waits would be told anew why, at a write each, every
// time the last gang goes.
func (c *Cluster) stopIdle() {
	if c.gangs.engine == nil || c.active() || len(c.gangs.dirty) > 0 {
		return
	}
	if waiting, _ := c.gangs.engine.Size(); waiting == 0 {
		c.stopEngine()
	}
}

// stopEngine lets pods be scheduled one by one again. Who is on the way to a place
// that was planned goes on.
func (c *Cluster) stopEngine() {
	c.gangs.engine = nil
	c.standings.deciding.Store(false)
	clear(c.gangs.dirty)
	clear(c.gangs.told)
	c.gangs.asking = asking{at: map[engine.ID]time.Time{}}
	for _, g := range c.gangs.groups {
		for h, m := range g.pods {
			if m.pod.Spec.NodeName == "" && !c.standings.releases.has(h) {
				c.gangs.awake[h] = m.pod
			}
		}
	}
	c.kick()
}

// tellAll tells the engine what is new.
func (c *Cluster) tellAll() {
	for _, id := range slices.Sorted(maps.Keys(c.gangs.dirty)) {
		c.tellEngine(id)
	}
}

// tellEngine tells the engine what is known of a gang. What it lets go because a
// member left the gang is still held if the member is bound.
func (c *Cluster) tellEngine(id engine.ID) {
	delete(c.gangs.dirty, id)
	e, g := c.gangs.engine, c.gangs.groups[id]
	if e == nil {
		return
	}
	if g == nil || len(g.pods) == 0 {
		e.Withdraw(id)
		return
	}
	gang := c.describe(g)
	if err := e.Submit(gang); err != nil {
		c.logger.Error(err, "A gang makes no sense")
		return
	}
	for h, m := range g.pods { // each for itself
		node := model.NodeID(m.pod.Spec.NodeName)
		if r := c.standings.releases.of(h); node == "" && r != nil {
			node = r.Node.ID
		}
		if node == "" {
			continue
		}
		if _, _, held := c.ledger.Claim(h); !held && m.pod.Spec.NodeName != "" {
			c.hold(m.pod)
		}
		if e.NodeOf(h) != node {
			e.Found(id, h, node, since(m.pod).UnixNano())
		}
		if leaving(m.pod) {
			e.Leaves(h, m.pod.DeletionTimestamp.Add(goneBy).UnixNano())
		}
	}
}

// hold makes the ledger hold what a bound pod does.
func (c *Cluster) hold(pod *v1.Pod) {
	claims, _ := dialect.Claims(pod) // complained about when the pod was seen
	for _, claim := range claims {
		c.ledger.Put(model.NodeID(pod.Spec.NodeName), claim)
	}
}
