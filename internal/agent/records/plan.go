package records

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Correction is one write: the record that a pod is to have.
type Correction struct {
	Pod *v1.Pod
	// Record is the new text; empty to take the record away.
	Record string
	Why    string
}

// Problem is what cannot be corrected; it is reported on the pod.
type Problem struct {
	Pod             *v1.Pod
	Reason, Message string
}

// Reasons of problems, for events and metrics.
const (
	// ReasonImpossible: what kubelet lists cannot be written as a record.
	ReasonImpossible = "ImpossibleAllocation"
	// ReasonContested: two pods hold devices that exclude each other.
	ReasonContested = "ContestedDevice"
	// ReasonDisplaced: another pod was given the devices of a pod that has not got its
	// own yet.
	ReasonDisplaced = "DisplacedRecord"
)

// state is a pod with its record as it is and as it should be.
type state struct {
	pod      *v1.Pod
	old, now *record.Record
	// real: kubelet lists devices of the pod, or its containers run on them though kubelet
	// has forgotten them, so that now is a fact and no plan.
	real       bool
	oldU, nowU []use
	displaced  bool
}

func (s *state) changed() bool { return s.old != s.now }

// plan compares records with what kubelet lists, and returns the writes that make them
// true, in their order.
//
// The order matters: a scheduler that sees two records name one device deletes the
// younger pod. So no write names a device that another pod's record still names: that
// one is written first. Where pods have swapped, one record is taken away for a moment;
// such a pod is counted by its request. A pod that has not got its devices yet and whose
// devices another pod was given, is planned on those that the other left.
func (f facts) plan(pods []*v1.Pod, listing Listing) ([]Correction, []Problem) {
	states, problems := f.states(pods, listing)
	problems = append(problems, f.resettle(states)...)
	return order(states), problems
}

func (f facts) states(pods []*v1.Pod, listing Listing) (out []*state, problems []Problem) {
	for _, pod := range pods {
		if !live(pod) {
			continue
		}
		old, err := readRecord(pod, f.node)
		s := &state{pod: pod, old: old, now: old}
		listed := listing.Find(pod.Namespace, pod.Name)
		now, problem := f.truth(pod, old, listed)
		switch {
		case errors.Is(problem, errPending):
		case problem != nil:
			problems = append(problems, Problem{pod, ReasonImpossible, problem.Error()})
		case err != nil && now == nil:
			continue // nothing is known that could replace it
		default:
			s.now = now
			s.real = listed != nil && holds(listed) || slices.ContainsFunc(forgotten([]*v1.Pod{pod}, listing, f.node, f.inv, time.Time{}), func(h *Held) bool { return !h.Init })
		}
		if s.now != nil && s.now != s.old {
			if _, err := record.Encode(*s.now); err != nil {
				problems = append(problems, Problem{pod, ReasonImpossible, "kubelet gave it devices that no record can name: " + err.Error()})
				s.now = s.old
			}
		}
		s.oldU, s.nowU = usesOf(s.old, f.inv), usesOf(s.now, f.inv)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *state) int { return older(a.pod, b.pod) })
	return out, problems
}

// holds says whether a pod was given any GPU.
func holds(l *Listed) bool {
	for _, c := range l.Containers {
		for r, ids := range c.Devices {
			if readable(r) && len(ids) > 0 {
				return true
			}
		}
	}
	return false
}

// older orders pods by the time of their Binding.
func older(a, b *v1.Pod) int {
	return cmp.Or(boundAt(a).Compare(boundAt(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// resettle plans pods anew that are still without devices and whose recorded devices
// another pod was given.
func (f facts) resettle(states []*state) (problems []Problem) {
	for _, s := range states {
		if !s.real {
			continue
		}
		for _, t := range states {
			if t == s || !anyOf(s.nowU, t.nowU, use.excludes) {
				continue
			}
			if !t.real {
				t.displaced = true
			} else if older(s.pod, t.pod) < 0 {
				problems = append(problems, Problem{t.pod, ReasonContested,
					fmt.Sprintf("holds a device that pod %s/%s holds too, and one excludes the other", s.pod.Namespace, s.pod.Name)})
			}
		}
	}
	for _, t := range states {
		if !t.displaced {
			continue
		}
		t.now = f.elsewhere(t, states)
		t.nowU = usesOf(t.now, f.inv)
		message := "kubelet gave its devices to another pod; its record names others now"
		if t.now == nil {
			message = "kubelet gave its devices to another pod, and no other device is known to be free: the record is removed until kubelet gives the pod devices"
		}
		problems = append(problems, Problem{t.pod, ReasonDisplaced, message})
	}
	return problems
}

// elsewhere is a displaced pod's record on devices that corrected pods have left; nil
// when there are none for it.
func (f facts) elsewhere(t *state, states []*state) *record.Record {
	var left []record.Device
	for _, s := range states {
		if s.old != nil && s.changed() && !s.displaced {
			for _, c := range s.old.Containers {
				left = append(left, c.Devices...)
			}
		}
	}
	free := func(d record.Device, also []use) bool {
		u := useOf(d, f.inv)
		return !u.excludesAny(also) && !slices.ContainsFunc(states, func(s *state) bool { return s != t && u.excludesAny(s.nowU) })
	}
	out := &record.Record{Node: t.now.Node}
	moved := map[record.Device]record.Device{} // by what was named, so that init containers follow
	var taken []use
	for _, c := range t.now.Containers {
		next := record.Container{Name: c.Name, Resource: c.Resource}
		for _, d := range c.Devices {
			place := record.Device{Index: d.Index, UUID: d.UUID, MIG: d.MIG, Start: d.Start}
			to, ok := moved[place]
			if !ok {
				to = d
				if !free(d, taken) {
					i := slices.IndexFunc(left, func(l record.Device) bool {
						return device.SameProfile(l.MIG, d.MIG) && free(moveTo(d, l), taken)
					})
					if i < 0 {
						return nil
					}
					to = left[i]
				}
				moved[place] = to
				taken = append(taken, useOf(moveTo(d, to), f.inv))
			}
			next.Devices = append(next.Devices, moveTo(d, to))
		}
		out.Containers = append(out.Containers, next)
	}
	if _, err := record.Encode(*out); err != nil {
		return nil
	}
	return out
}

// moveTo is an entry on another device: the same amount, the same kind of share.
func moveTo(d, to record.Device) record.Device {
	d.Index, d.UUID, d.MIG, d.Start = to.Index, to.UUID, to.MIG, to.Start
	return d
}

// order lists the writes so that no record names a device that another one still names.
func order(states []*state) (out []Correction) {
	todo := slices.DeleteFunc(slices.Clone(states), func(s *state) bool { return !s.changed() })
	write := func(s *state, now *record.Record, why string) {
		text := ""
		if now != nil {
			text, _ = record.Encode(*now) // checked before
		}
		out = append(out, Correction{s.pod, text, why})
	}
	for len(todo) > 0 {
		i := slices.IndexFunc(todo, func(s *state) bool {
			return !slices.ContainsFunc(todo, func(t *state) bool { return t != s && anyOf(s.nowU, t.oldU, use.touches) })
		})
		if i < 0 { // they have swapped; the youngest that is in the way makes room
			for k := len(todo) - 1; k >= 0; k-- {
				if s := todo[k]; len(s.oldU) > 0 {
					write(s, nil, "kubelet exchanged its devices with those of other pods: the record is removed until the others are corrected")
					s.oldU = nil
					break
				}
			}
			continue
		}
		s := todo[i]
		why := "kubelet gave it other devices than recorded"
		switch {
		case s.displaced:
			why = "kubelet gave its devices to another pod"
		case s.old == nil:
			why = "it holds devices and has no valid record"
		}
		write(s, s.now, why)
		todo = slices.Delete(todo, i, i+1)
	}
	return out
}
