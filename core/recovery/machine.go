package recovery

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Machine decides. It is not safe for concurrent use.
type Machine struct {
	c Config
	// started is when it was first stepped: what it cannot know the age of is that old.
	started time.Time
	nodes   map[string]*target
	devices map[string]*target
	agents  map[string]*agentState
	// over is in how many looks in a row a pod used too much memory, by UID.
	over map[string]int
	// asked holds the back-off of each action, by key.
	asked     map[string]*backoff
	scheduler schedulerState

	nodesAt, devicesAt time.Time // of the last looks
	last               time.Time // of the last step
	reliability        Reliability
}

// target is what is remembered of one node or device.
type target struct {
	suspicion
	// pending: its isolation was asked for and is not seen yet. It counts as isolated.
	pending time.Time
	// well is when it was first seen well while isolated.
	well time.Time
	// moved: it has had pods that had to go; gone: they have.
	moved, gone bool
	// uncordoned: an operator made the node schedulable, and no mark says so yet.
	uncordoned bool
	// restarts is how often the agent was restarted for a device.
	restarts int
	// releasing is the mark of what was asked to be put back.
	releasing *Mark
	seen      bool
}

// Reliability is what the time between failures is computed from. It may be kept over a
// restart.
type Reliability struct {
	// DeviceSeconds is for how long devices were in service, all together; Failures is how
	// many were isolated for a fault meanwhile.
	DeviceSeconds float64 `json:"deviceSeconds"`
	Failures      int64   `json:"failures"`
}

// MTBFHours is the mean time between failures of a device, in hours; without a failure,
// the hours without one.
func (r Reliability) MTBFHours() float64 { return r.DeviceSeconds / 3600 / float64(max(1, r.Failures)) }

// New returns a Machine; the configuration must be valid.
func New(c Config, r Reliability) *Machine {
	return &Machine{
		c: c, nodes: map[string]*target{}, devices: map[string]*target{}, agents: map[string]*agentState{}, over: map[string]int{},
		asked: map[string]*backoff{}, reliability: r,
	}
}

// Reliability is what has been counted so far.
func (m *Machine) Reliability() Reliability { return m.reliability }

// step is one Step under way.
type step struct {
	*Machine
	now   time.Time
	fleet *Fleet
	plan  *Plan
	// heldNodes, heldDevices: too many look sick.
	heldNodes, heldDevices bool
	// pods are those that are not leaving, by node and by gang.
	onNode, inGang map[string][]*Pod
}

// Step takes what the API shows now and returns what to do. Time must not go back.
func (m *Machine) Step(now time.Time, f Fleet) Plan {
	if m.started.IsZero() {
		m.started, m.last = now, now
	}
	slices.SortFunc(f.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	for i := range f.Nodes {
		slices.SortFunc(f.Nodes[i].Devices, func(a, b Device) int { return cmp.Compare(a.ID, b.ID) })
	}
	slices.SortFunc(f.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	plan := Plan{Suppressed: map[Cause]int{}}
	s := &step{Machine: m, now: now, fleet: &f, plan: &plan, onNode: map[string][]*Pod{}, inGang: map[string][]*Pod{}}
	for i := range f.Pods {
		p := &f.Pods[i]
		if p.Leaving {
			continue
		}
		s.onNode[p.Node] = append(s.onNode[p.Node], p)
		if p.Gang != "" {
			s.inGang[p.Gang] = append(s.inGang[p.Gang], p)
		}
	}
	s.follow()
	s.checkNodes()
	s.checkDevices()
	s.checkMemory()
	s.isolateNodes()
	s.isolateDevices()
	s.recoverNodes()
	s.recoverDevices()
	s.restartAgents()
	s.evict()
	s.checkScheduler()
	s.count()
	m.last = now
	s.forget()
	plan.Wake = s.wake()
	return plan
}

// do asks for an action unless it was asked for a short time ago.
func (s *step) do(a Action) bool {
	b := s.asked[a.key()]
	if b == nil {
		b = &backoff{}
		s.asked[a.key()] = b
	}
	if !b.may(s.now) {
		return false
	}
	first := s.c.BackoffFirst
	if a.Do == RestartAgent {
		first = s.restartPause()
	}
	b.ask(s.now, first, max(first, s.c.BackoffMost))
	s.plan.Actions = append(s.plan.Actions, a)
	return true
}

// settle forgets the back-off of an action that has had its effect.
func (m *Machine) settle(a Action) {
	if len(m.asked) > 0 { // it is called for every device, and mostly there is nothing
		delete(m.asked, a.key())
	}
}

// Failed says that an action was refused or failed: it is not pending, and its back-off
// goes on.
func (m *Machine) Failed(a Action) {
	var t *target
	switch a.Do {
	case IsolateNode:
		t = m.nodes[a.Node]
	case IsolateDevice:
		t = m.devices[a.Node+"/"+a.Device]
	}
	if t != nil {
		t.pending = time.Time{}
	}
}

// forget drops what no longer exists.
func (s *step) forget() {
	for name, t := range s.nodes {
		if !t.seen {
			delete(s.nodes, name)
			delete(s.agents, name)
		}
		t.seen = false
	}
	for id, t := range s.devices {
		if !t.seen {
			delete(s.devices, id)
		}
		t.seen = false
	}
	maps.DeleteFunc(s.asked, func(_ string, b *backoff) bool { return s.now.Sub(b.next) > 2*s.c.BackoffMost })
}

// wake is when the next look is due.
func (s *step) wake() time.Time {
	next := s.nodesAt.Add(s.c.NodeInterval)
	for _, t := range []time.Time{s.devicesAt.Add(s.c.DeviceInterval), s.scheduler.at.Add(s.c.SchedulerInterval)} {
		if t.Before(next) {
			next = t
		}
	}
	for i := range s.fleet.Nodes {
		if m := s.fleet.Nodes[i].Maintenance; m != nil {
			for _, t := range []time.Time{m.From, m.Until} {
				if t.After(s.now) && t.Before(next) {
					next = t
				}
			}
		}
	}
	return next
}

// follow makes sure that every node and device is remembered, and notes which isolations
// are seen.
func (s *step) follow() {
	for i := range s.fleet.Nodes {
		n := &s.fleet.Nodes[i]
		s.node(n).seen = true
		for j := range n.Devices {
			s.device(n, &n.Devices[j]).seen = true
		}
	}
}

func (s *step) node(n *Node) *target {
	t := s.nodes[n.Name]
	if t == nil {
		t = &target{}
		s.nodes[n.Name] = t
	}
	return t
}

func (s *step) device(n *Node, d *Device) *target {
	id := n.Name + "/" + d.ID
	t := s.devices[id]
	if t == nil {
		t = &target{}
		s.devices[id] = t
	}
	return t
}
