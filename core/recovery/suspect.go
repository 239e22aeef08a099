package recovery

import (
	"fmt"
	"time"

	"github.com/tangram-dev/tangram/core/health"
)

// suspicion is a fault that was seen in a number of looks in a row.
type suspicion struct {
	cause Cause
	why   string
	began time.Time
	looks int
	// told: it was held back, and that was said.
	told bool
}

// see takes note of one look.
func (t *suspicion) see(cause Cause, why string, began time.Time) {
	if cause == NoCause {
		*t = suspicion{}
		return
	}
	t.looks++
	if t.cause == NoCause || began.Before(t.began) {
		t.began = began
	}
	t.cause, t.why = cause, why
}

// is: the fault is there, in this very look.
func is(cause Cause, _ string, _ time.Time) bool { return cause != NoCause }

// due says whether a look is due, and notes it.
func due(now time.Time, last *time.Time, interval time.Duration) bool {
	if !last.IsZero() && now.Before(last.Add(interval)) {
		return false
	}
	*last = now
	return true
}

func (s *step) checkNodes() {
	if !due(s.now, &s.nodesAt, s.c.NodeInterval) {
		return
	}
	for i := range s.fleet.Nodes {
		n := &s.fleet.Nodes[i]
		s.node(n).see(s.fault(n))
	}
}

// fault is what is wrong with a node itself.
func (s *step) fault(n *Node) (cause Cause, why string, began time.Time) {
	agent := s.agent(n)
	switch {
	case !n.Ready:
		return NodeNotReady, "the node is not ready", or(n.NotReadySince, s.now)
	case !n.DriverReady:
		return DriverNotReady, "the agent cannot talk to the GPU driver", or(n.DriverSince, s.now)
	case agent.silent(s.now, s.c.AgentSilentFor):
		return AgentSilent, fmt.Sprintf("its GPU agent has written nothing for %s", s.now.Sub(agent.since).Round(time.Second)), agent.since.Add(s.c.AgentSilentFor)
	}
	return NoCause, "", time.Time{}
}

func or(t, otherwise time.Time) time.Time {
	if t.IsZero() || t.After(otherwise) {
		return otherwise
	}
	return t
}

func (s *step) checkDevices() {
	if !due(s.now, &s.devicesAt, s.c.DeviceInterval) {
		return
	}
	for i := range s.fleet.Nodes {
		n := &s.fleet.Nodes[i]
		for j := range n.Devices {
			// What was suspected of a node that can no longer be read stays so: else a false
			// alarm would shrink below the limit when agents fall silent in it.
			if d := &n.Devices[j]; s.readable(n) {
				s.device(n, d).see(s.faultOf(n, d))
			}
		}
	}
	before := s.over
	s.over = map[string]int{}
	for i := range s.fleet.Pods {
		if p := &s.fleet.Pods[i]; p.exceeds() {
			s.over[p.UID] = before[p.UID] + 1
		}
	}
}

// faultOf is what is wrong with a device. What a node without a driver says of its devices
// is the node's fault, and what a silent or lost node said last is old.
func (s *step) faultOf(n *Node, d *Device) (cause Cause, why string, began time.Time) {
	if !s.readable(n) {
		return NoCause, "", time.Time{}
	}
	switch d.State {
	case health.Degraded:
		cause = DeviceDegraded
	case health.Failed:
		cause = DeviceFailed
	default:
		return NoCause, "", time.Time{}
	}
	return cause, fmt.Sprintf("GPU %s is %s: %s", d.ID, d.State, d.Reason), or(d.Since, s.now)
}

// readable: what the agent says of the node's devices is new.
func (s *step) readable(n *Node) bool {
	t := s.nodes[n.Name]
	return n.Ready && n.DriverReady && (t == nil || t.cause != AgentSilent)
}
