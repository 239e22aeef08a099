package recovery

import "github.com/tangram-dev/tangram/core/health"

// count fills in how many nodes and devices are in which state, and the time that devices
// were in service.
func (s *step) count() {
	serving := 0
	for i := range s.fleet.Nodes {
		n := &s.fleet.Nodes[i]
		sick := false
		for j := range n.Devices {
			d := &n.Devices[j]
			s.plan.Devices[min(max(d.State, health.Healthy), health.Failed)]++
			sick = sick || d.State > health.Suspect || d.Isolated
			if n.Ready && n.DriverReady && d.State <= health.Suspect && !d.isolated() {
				serving++
			}
		}
		switch {
		case !n.Ready:
			s.plan.Nodes.Lost++
		case n.Mark != nil && !n.Mark.Lifted:
			s.plan.Nodes.Isolated++
		case sick || !n.DriverReady || s.nodes[n.Name].cause != NoCause:
			s.plan.Nodes.Degraded++
		default:
			s.plan.Nodes.Healthy++
		}
	}
	s.reliability.DeviceSeconds += float64(serving) * s.now.Sub(s.last).Seconds()
}
