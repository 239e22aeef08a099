package devicemanager

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// This file judges: it works out for itself which uses of a GPU exclude each other.

// part is what a container uses of one GPU.
type part struct {
	gpu      string
	from, to int // memory slices of 8
	turn     int // 0 for none
	turns    bool
}

func (p part) clashes(q part) bool {
	if p.gpu != q.gpu || p.to <= q.from || q.to <= p.from {
		return false
	}
	return !p.turns || !q.turns || p.turn != 0 && p.turn == q.turn
}

var sizes = map[string]int{"1g.18gb": 1, "3g.71gb": 4}

func partOf(uuid, profile string, start int, turn bool) part {
	if profile != "" {
		return part{gpu: uuid, from: start, to: start + sizes[profile]}
	}
	return part{gpu: uuid, from: 0, to: 8, turns: turn}
}

func partsOf(a device.Allocation) (out []part) {
	for _, g := range a.Devices {
		out = append(out, partOf(g.UUID, g.Profile, g.Start, g.Turn || g.MemoryMiB > 0))
	}
	return out
}

func recorded(pod *v1.Pod) (out []part) {
	r := recordOf(pod)
	if r == nil {
		return nil
	}
	for _, c := range r.Containers {
		for _, d := range c.Devices {
			out = append(out, partOf(d.UUID, d.MIG, d.Start, d.Turn || d.MemoryMiB > 0))
		}
	}
	return out
}

func clash(a, b []part) bool {
	return slices.ContainsFunc(a, func(p part) bool { return slices.ContainsFunc(b, p.clashes) })
}

// hastily is the label of pods that were bound before other pods' records were true:
// their scheduler could not know that it gave devices that others have.
const hastily = "hastily"

// noContest says whether a record that was just written contests another pod's: a
// scheduler deletes one of two such pods.
func noContest(pods []*v1.Pod, written *v1.Pod) error {
	for _, p := range pods {
		if p.UID != written.UID && p.Labels[hastily] == "" && written.Labels[hastily] == "" && p.Status.Phase != v1.PodSucceeded && clash(recorded(p), recorded(written)) {
			return fmt.Errorf("the record written for %s contests that of %s:\n%v\n%v", written.Name, p.Name, written.Annotations, p.Annotations)
		}
	}
	return nil
}
