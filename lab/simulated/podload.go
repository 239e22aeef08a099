package simulated

import (
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
)

// Utilization that pods cause is between these, in percent of what they were given.
const (
	leastBusy = 60
	mostBusy  = 95
)

// memoryShare is how much of a whole device or MIG instance a pod allocates, in percent:
// frameworks take nearly all at once.
const memoryShare = 90

// loadOf is what the running pods of a node do to its devices, and what is wrong with
// their annotations. Pods are in no particular order; a record that does not decode or is
// about another node counts for nothing.
func (n *node) loadOf(pods []*v1.Pod) (uses []Use, problems []error) {
	turns := map[int]int{} // holders of turns, by device
	var given []grant
	for _, p := range pods {
		list, err := n.grants(p)
		if err != nil {
			problems = append(problems, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err))
		}
		for _, g := range list {
			if g.Turn {
				turns[g.Index]++
			}
		}
		given = append(given, list...)
	}
	for _, g := range given {
		uses = append(uses, n.use(g, turns[g.Index]))
	}
	return uses, problems
}

// grant is a device, or part of one, that a running container was given.
type grant struct {
	record.Device
	busy int // percent of what was given
}

// grants are those of the pod's containers that run; none while it does not.
func (n *node) grants(p *v1.Pod) ([]grant, error) {
	text := p.Annotations[names.AnnotationDevices]
	if text == "" || p.Spec.NodeName != n.name || p.Status.Phase != v1.PodRunning {
		return nil, nil
	}
	r, err := record.Decode(text)
	if err != nil {
		return nil, err
	}
	if r.Node != n.name {
		return nil, fmt.Errorf("%s: node: is %s, the pod is on %s", names.AnnotationDevices, r.Node, n.name)
	}
	busy, problem := busyness(p)
	var list []grant
	for _, c := range r.Containers {
		if isDone(p, c.Name) {
			continue
		}
		for _, d := range c.Devices {
			if d.Index < len(n.gpus) && (d.UUID == "" || d.UUID == n.gpus[d.Index].UUID) {
				list = append(list, grant{d, busy})
			} else if problem == nil {
				problem = fmt.Errorf("%s: the node has no device %d with UUID %q", names.AnnotationDevices, d.Index, d.UUID)
			}
		}
	}
	return list, problem
}

// isDone says whether the container is one that ran before the pod's others.
func isDone(p *v1.Pod, name string) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c v1.Container) bool {
		return c.Name == name && (c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways)
	})
}

// busyness is how busy the pod keeps what it was given, in percent: as its annotation
// says, or as its UID happens to be. With an error it is the latter.
func busyness(p *v1.Pod) (int, error) {
	byUID := leastBusy + int(hash(0, string(p.UID))%(mostBusy-leastBusy+1))
	text, ok := p.Annotations[names.AnnotationSimulatedUtilization]
	if !ok {
		return byUID, nil
	}
	busy, err := strconv.Atoi(text)
	if err != nil || busy < 0 || busy > 100 {
		return byUID, fmt.Errorf("%s: must be a whole number from 0 to 100, not %.40q", names.AnnotationSimulatedUtilization, text)
	}
	return busy, nil
}

// use turns a grant into load. A share takes its part of compute (of memory, where the
// record has no compute) and all of its memory; a turn takes what it can get, and turns
// divide the memory evenly.
func (n *node) use(g grant, turns int) Use {
	whole := n.gpus[g.Index]
	u := Use{Device: g.Index, Start: WholeDevice, Utilization: float64(g.busy), MemoryMiB: whole.MemoryMiB * memoryShare / 100}
	switch {
	case g.MIG != "":
		u.Start = g.Start
		u.Utilization *= 0.1 // of a profile that the device does not know
		if whole.MIG == nil {
			break
		}
		most := 1
		for _, p := range whole.MIG.Profiles {
			most = max(most, p.ComputeSlices)
		}
		for _, p := range whole.MIG.Profiles {
			if p.Name == g.MIG && slices.Contains(p.Starts, g.Start) {
				u.Utilization = float64(g.busy*p.ComputeSlices) / float64(most)
				u.MemoryMiB = p.MemoryMiB * memoryShare / 100
				break
			}
		}
	case g.Turn:
		u.MemoryMiB /= int64(max(1, turns))
	case g.ComputeMilli > 0 || g.MemoryMiB > 0:
		if g.MemoryMiB > 0 {
			u.MemoryMiB = g.MemoryMiB
		}
		part := float64(g.ComputeMilli) / 1000
		if g.ComputeMilli == 0 {
			part = min(1, float64(g.MemoryMiB)/float64(whole.MemoryMiB))
		}
		u.Utilization *= part
	}
	return u
}
