package recovery

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// exceeds: the pod uses more GPU memory than it was given.
func (p *Pod) exceeds() bool { return p.GivenMiB > 0 && p.UsedMiB > p.GivenMiB }

// victim is a pod that has to go, and why.
type victim struct {
	*Pod
	cause Cause
	why   string
}

// checkMemory drops pods that are gone from what is remembered of their excess.
func (s *step) checkMemory() {
	there := map[string]bool{}
	for i := range s.fleet.Pods {
		there[s.fleet.Pods[i].UID] = true
	}
	maps.DeleteFunc(s.over, func(uid string, _ int) bool { return !there[uid] })
}

// evict asks for the eviction of pods that are affected, gangs as a whole.
func (s *step) evict() {
	victims := map[string]victim{}
	add := func(p *Pod, cause Cause, why string) {
		if _, ok := victims[p.UID]; !ok {
			victims[p.UID] = victim{p, cause, why}
		}
	}
	for i := range s.fleet.Nodes {
		n := &s.fleet.Nodes[i]
		s.affectedByNode(n, add)
		for j := range n.Devices {
			s.affectedByDevice(n, &n.Devices[j], add)
		}
	}
	if s.c.EvictOverMemory {
		for i := range s.fleet.Pods {
			if p := &s.fleet.Pods[i]; s.over[p.UID] >= s.c.Confirmations && p.exceeds() && !p.Leaving && !p.Fixed && !p.Critical {
				add(p, OverMemory, fmt.Sprintf("the pod uses %d MiB of GPU memory and was given %d", p.UsedMiB, p.GivenMiB))
			}
		}
	}
	s.evictUnits(victims)
}

// affectedByNode are the pods that a node's fault or maintenance concerns.
func (s *step) affectedByNode(n *Node, add func(*Pod, Cause, string)) {
	if n.Mark == nil || n.Mark.Lifted {
		return
	}
	t := s.node(n)
	left := 0
	switch {
	case n.Mark.Cause == UnderRepair && n.Maintenance.inEffect(s.now):
		for _, p := range s.onNode[n.Name] {
			if !p.Fixed {
				add(p, UnderRepair, fmt.Sprintf("node %s is under maintenance", n.Name))
			}
		}
		return
	case s.doubtful(s.heldNodes, n.Mark, s.c.NodeInterval), s.c.Evict == EvictNever || n.Mark.Cause != NodeNotReady && n.Mark.Cause != DriverNotReady:
		return // a silent agent hurts no pod that runs
	}
	cause, _, _ := s.fault(n)
	if cause != n.Mark.Cause {
		t.moved = false // pods that are still there may stay
		return
	}
	for _, p := range s.onNode[n.Name] {
		if !p.GPUs || p.Fixed || p.Critical {
			continue
		}
		left++
		add(p, cause, fmt.Sprintf("node %s: %s", n.Name, n.Mark.Why))
	}
	s.workload(t, n.Mark, left)
}

// affectedByDevice are the pods that hold a device which is isolated for a fault that is
// still there, and bad enough.
func (s *step) affectedByDevice(n *Node, d *Device, add func(*Pod, Cause, string)) {
	if !d.isolated() || d.Mark == nil || s.c.Evict == EvictNever || s.doubtful(s.heldDevices, d.Mark, s.c.DeviceInterval) {
		return
	}
	cause, why, _ := s.faultOf(n, d)
	t := s.device(n, d)
	if cause != DeviceFailed && (cause != DeviceDegraded || s.c.Evict != EvictDegraded) {
		t.moved = t.moved && t.gone // pods that are still there may stay
		return
	}
	left := 0
	for _, p := range s.onNode[n.Name] {
		if p.Fixed || p.Critical || !slices.Contains(p.Devices, d.ID) {
			continue
		}
		left++
		add(p, cause, fmt.Sprintf("node %s: %s", n.Name, why))
	}
	s.workload(t, d.Mark, left)
}

// workload measures how long it took until the last affected pod had gone.
func (s *step) workload(t *target, mark *Mark, left int) {
	switch {
	case left > 0:
		t.moved, t.gone = true, false
	case t.moved && !t.gone:
		t.gone = true
		s.plan.Recovered = append(s.plan.Recovered, Recovery{Of: "workload", Took: s.now.Sub(mark.Detected)})
	}
}

// evictUnits evicts victims: alone, or with all of their gang when it would have fewer
// members left than it needs.
func (s *step) evictUnits(victims map[string]victim) {
	units := map[string][]victim{}
	for _, uid := range slices.Sorted(maps.Keys(victims)) {
		v := victims[uid]
		unit := "pod/" + uid
		if members := s.inGang[v.Gang]; v.Gang != "" && len(members)-lost(victims, members) < needed(members) {
			unit = "gang/" + v.Gang
		}
		units[unit] = append(units[unit], v)
	}
	for _, unit := range slices.Sorted(maps.Keys(units)) {
		list := units[unit]
		first := slices.MinFunc(list, func(a, b victim) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		a := Action{Do: EvictPods, Node: first.Node, Unit: unit, Cause: first.cause, Why: first.why}
		if first.Gang != "" && unit == "gang/"+first.Gang {
			a.Why += fmt.Sprintf("; gang of pod %s cannot go on with fewer than %d members", first.Name, needed(s.inGang[first.Gang]))
			for _, p := range s.inGang[first.Gang] {
				if !p.Fixed && !p.Critical {
					a.Pods = append(a.Pods, p.UID)
				}
			}
		} else {
			a.Pods = []string{first.UID}
		}
		s.do(a)
	}
}

// needed is how many members a gang needs; if its members disagree, the most.
func needed(members []*Pod) (n int) {
	for _, p := range members {
		n = max(n, p.GangMin)
	}
	return n
}

// lost is how many members of a gang are victims.
func lost(victims map[string]victim, members []*Pod) (n int) {
	for _, p := range members {
		if _, ok := victims[p.UID]; ok {
			n++
		}
	}
	return n
}
