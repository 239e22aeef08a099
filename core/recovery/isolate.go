package recovery

import (
	"fmt"
	"time"
)

// isolated says whether a node is isolated for a fault, as far as the API shows.
func (n *Node) isolated() bool { return n.Mark != nil && !n.Mark.Lifted && n.Mark.Cause != UnderRepair }

// candidates are the nodes, or the devices, that are isolated or suspected of a fault.
type candidates struct {
	// what names them in notices.
	what            string
	total, isolated int
	// suspects have a fault, whether or not it has been confirmed; names are their nodes'.
	suspects []*target
	names    []string
	// ready have one that has been confirmed.
	ready []isolation
}

// isolation is a confirmed fault, and the action that it leads to.
type isolation struct {
	t *target
	a Action
}

// isolate keeps new pods off what is ready, as far as a budget in percent goes. It returns
// whether the budget holds it back.
func (s *step) isolate(c *candidates, percent int) (held bool) {
	most := limit(c.total, percent)
	if !room(c.isolated, len(c.suspects), most) {
		if len(c.ready) > 0 {
			s.hold(c.what, c.suspects, c.names, c.isolated, most)
		}
		return true
	}
	for _, r := range c.ready {
		t, a := r.t, r.a
		if s.rising(t, c.suspects) {
			continue
		}
		a.Cause, a.Why, a.Mark = t.cause, t.why, &Mark{Cause: t.cause, Why: t.why, Began: t.began, Detected: s.now}
		if s.do(a) {
			t.pending, t.told = s.now, false
			if a.Do == IsolateDevice {
				s.reliability.Failures++
			}
			s.detected(t)
		}
	}
	return false
}

// isolateNodes keeps new pods off nodes that are under maintenance, and off sick ones as
// far as the budget goes.
func (s *step) isolateNodes() {
	c := candidates{what: "nodes", total: len(s.fleet.Nodes)}
	for i := range s.fleet.Nodes {
		n := &s.fleet.Nodes[i]
		t := s.node(n)
		if n.Mark != nil || s.pendingIsOver(t) {
			t.pending = time.Time{}
		}
		switch {
		case n.Maintenance.inEffect(s.now) && n.Mark == nil, n.Maintenance.inEffect(s.now) && n.Mark.Cause != UnderRepair:
			s.maintain(n)
			if n.isolated() {
				c.isolated++ // until the new mark is seen
			}
		case n.isolated(), !t.pending.IsZero():
			c.isolated++
		case n.Mark == nil && t.cause != NoCause && s.nodeCounts(n, t):
			c.suspects, c.names = append(c.suspects, t), append(c.names, n.Name)
			if t.looks >= s.c.Confirmations && is(s.fault(n)) {
				c.ready = append(c.ready, isolation{t, Action{Do: IsolateNode, Node: n.Name}})
			}
		}
	}
	if s.c.IsolateNodes {
		s.heldNodes = s.isolate(&c, s.c.MaxNodesPercent)
	}
}

// nodeCounts says whether a node's fault is one to isolate it for now: a silent agent is
// restarted first.
func (s *step) nodeCounts(n *Node, t *target) bool {
	if t.cause != AgentSilent || !s.c.RestartAgent || n.Agent.Pod == "" {
		return true
	}
	a := s.agent(n)
	return !a.restarted.IsZero() && s.now.Sub(a.restarted) >= s.restartPause()
}

// pendingIsOver: the write is so long ago that it is not under way any more.
func (s *step) pendingIsOver(t *target) bool {
	return !t.pending.IsZero() && s.now.Sub(t.pending) > pendingFor
}

// pendingFor is how long an isolation that the API does not show counts nevertheless:
// writes and watches are late, not lost.
const pendingFor = time.Minute

func (s *step) detected(t *target) {
	if took := s.now.Sub(t.began); took >= 0 {
		s.plan.Detected = append(s.plan.Detected, took)
	}
}

// maintain isolates a node for maintenance. The budget is for what we believe; this is
// what an operator wants.
func (s *step) maintain(n *Node) {
	m := n.Maintenance
	mark := &Mark{Cause: UnderRepair, Why: "maintenance", Began: m.From, Detected: s.now}
	if n.Mark != nil && !n.Mark.Lifted {
		mark.Cordoned = n.Mark.Cordoned && !s.node(n).uncordoned
		s.do(Action{Do: MarkNode, Node: n.Name, Cause: UnderRepair, Why: mark.Why, Mark: mark})
		return
	}
	why := "maintenance of the node has begun"
	if !m.Until.IsZero() {
		why += fmt.Sprintf(", and ends at %s", m.Until.UTC().Format("2006-01-02T15:04:05Z"))
	}
	s.do(Action{Do: IsolateNode, Node: n.Name, Cause: UnderRepair, Why: why, Mark: mark})
}

func (d *Device) isolated() bool { return d.Isolated && (d.Mark == nil || !d.Mark.Lifted) }

// isolateDevices keeps new pods off sick devices as far as the budget goes. A device that
// an operator has cordoned is left to the operator.
func (s *step) isolateDevices() {
	c := candidates{what: "GPUs"}
	for i := range s.fleet.Nodes {
		n := &s.fleet.Nodes[i]
		told := false
		for j := range n.Devices {
			d := &n.Devices[j]
			c.total++
			t := s.device(n, d)
			if d.Isolated || s.pendingIsOver(t) {
				t.pending = time.Time{}
			}
			switch {
			case d.isolated(), !t.pending.IsZero():
				c.isolated++
			case !s.readable(n) && n.Mark != nil: // isolated with its node
			case d.Mark == nil && !d.Cordoned && t.cause != NoCause:
				name := ""
				if !told { // one event for a node is enough
					name, told = n.Name, true
				}
				c.suspects, c.names = append(c.suspects, t), append(c.names, name)
				if t.looks >= s.c.Confirmations && is(s.faultOf(n, d)) {
					c.ready = append(c.ready, isolation{t, Action{Do: IsolateDevice, Node: n.Name, Device: d.ID}})
				}
			}
		}
	}
	if s.c.IsolateDevices {
		s.heldDevices = s.isolate(&c, s.c.MaxDevicesPercent)
	}
}
