package recovery

import (
	"fmt"
	"slices"
	"time"
)

// agentState is when an agent was last heard of, by our clock.
type agentState struct {
	heartbeat string
	since     time.Time
	// restarted is when it was last restarted for its silence; zero for not.
	restarted time.Time
	known     bool
}

// restartPause is how long an agent has, after a restart, to show that it works.
func (m *Machine) restartPause() time.Duration { return max(m.c.BackoffFirst, 4*m.c.NodeInterval) }

// maxRestarts is how often the agent is restarted for one device: it repairs no hardware.
const maxRestarts = 3

// agent is what is known of a node's agent now.
func (s *step) agent(n *Node) *agentState {
	a := s.agents[n.Name]
	if a == nil {
		a = &agentState{}
		s.agents[n.Name] = a
	}
	if !a.known || a.heartbeat != n.Agent.Heartbeat {
		*a = agentState{heartbeat: n.Agent.Heartbeat, since: s.now, known: true}
	}
	return a
}

// silent: there is an agent, and it has written nothing for that long.
func (a *agentState) silent(now time.Time, limit time.Duration) bool {
	return a.heartbeat != "" && now.Sub(a.since) >= limit
}

// restartAgents restarts the agents of nodes whose agent is silent, as long as they are
// few, and of nodes with a device that is empty and does not recover.
func (s *step) restartAgents() {
	if !s.c.RestartAgent {
		return
	}
	silent := 0
	for _, t := range s.nodes {
		if t.cause == AgentSilent {
			silent++
		}
	}
	most := limit(len(s.fleet.Nodes), s.c.MaxNodesPercent)
	for i := range s.fleet.Nodes {
		n := &s.fleet.Nodes[i]
		if n.Agent.Pod == "" || !n.Ready {
			continue
		}
		t := s.node(n)
		why := ""
		var device *target
		switch {
		case t.cause == AgentSilent && t.looks >= s.c.Confirmations:
			if silent > most {
				s.holdAgent(n, t, silent, most)
				continue
			}
			why = t.why
		case t.cause == DriverNotReady && n.isolated():
			why = t.why
		default:
			why, device = s.stuck(n)
		}
		if why == "" || !s.do(Action{Do: RestartAgent, Node: n.Name, Cause: t.cause, Why: why, Pods: []string{n.Agent.Pod}}) {
			continue
		}
		if device != nil {
			device.restarts++
		} else {
			s.agent(n).restarted = s.now
		}
	}
}

// holdAgent says once that so many agents are not restarted.
func (s *step) holdAgent(n *Node, t *target, silent, most int) {
	if t.told {
		return
	}
	t.told = true
	s.plan.Suppressed[AgentSilent]++
	s.plan.Notices = append(s.plan.Notices, Notice{Node: n.Name, Reason: "IsolationHeldBack",
		Text: fmt.Sprintf("%s. It is not restarted: %d agents are silent, and at most %d would be restarted at once", t.why, silent, most)})
}

// stuck says which isolated device of a node is empty and has not become healthy for a
// time in which a reset would have been done.
func (s *step) stuck(n *Node) (string, *target) {
	for j := range n.Devices {
		d := &n.Devices[j]
		cause, why, _ := s.faultOf(n, d)
		if cause == NoCause || !d.isolated() || d.Mark == nil || s.now.Sub(d.Mark.Detected) < stuckAfter*s.c.DeviceInterval ||
			s.occupied(n, d) || s.device(n, d).restarts >= maxRestarts {
			continue
		}
		return why + "; no pod is on it, and a reset has not helped", s.device(n, d)
	}
	return "", nil
}

// stuckAfter is how many looks a device has for recovering by itself or by a reset.
const stuckAfter = 5

// occupied: a pod holds the device.
func (s *step) occupied(n *Node, d *Device) bool {
	return slices.ContainsFunc(s.fleet.Pods, func(p Pod) bool { return p.Node == n.Name && slices.Contains(p.Devices, d.ID) })
}
