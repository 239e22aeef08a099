package answer

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// subject is what is asked about: gangs, the first of which is answered for, or a reason why
// there is none.
type subject struct {
	gangs  []engine.ID
	reason explain.Reason
	// kind and name are the object's, for commands.
	kind, name string
}

// podKind says whether a kind that is asked for can be a pod.
func podKind(kind string) bool { return workload.IsKind(kind, "Pod", "pods") || kind == "po" }

// subject finds what is asked about: a pod first, then a gang of the name, then objects that
// own pods.
func (a *Answers) subject(v *View, kind, namespace, name string) subject {
	s := subject{kind: cmp.Or(kind, "Pod"), name: name}
	if podKind(kind) {
		if pod, err := a.Pods.Pods(namespace).Get(name); err == nil {
			s.kind = "Pod"
			if id, ok := v.Core.Gangs.Of(model.HolderID(pod.UID)); ok {
				s.gangs = []engine.ID{id}
			} else {
				s.reason = a.stranger(pod)
			}
			return s
		}
	}
	if workload.IsKind(kind, "Gang", "gangs") {
		if s.gangs = v.Core.Gangs.Named(namespace + "/" + name); len(s.gangs) > 0 {
			return s
		}
	}
	gangs, alone, exists := v.Work.OwnedBy(kind, namespace, name)
	for _, id := range gangs {
		if _, there := v.Core.Gangs.Gang(id); there {
			s.gangs = append(s.gangs, id)
		}
	}
	switch {
	case len(s.gangs) > 0:
	case len(alone) > 0:
		s.reason = a.stranger(alone[0])
	case len(gangs) > 0:
		s.reason = explain.Reason{Code: explain.Unseen}
	case exists:
		s.reason = explain.Reason{Code: explain.NoPods}
	default:
		s.reason = explain.Reason{Code: explain.NoObject, Detail: strings.TrimSpace(kind + " " + namespace + "/" + name)}
	}
	return s
}

// stranger says why a pod is in no gang that is known here.
func (a *Answers) stranger(pod *v1.Pod) explain.Reason {
	gates := make([]string, 0, len(pod.Spec.SchedulingGates))
	for _, g := range pod.Spec.SchedulingGates {
		gates = append(gates, g.Name)
	}
	switch ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed; {
	case ended:
		return explain.Reason{Code: explain.Ended, Detail: string(pod.Status.Phase)}
	case pod.DeletionTimestamp != nil:
		return explain.Reason{Code: explain.Terminating}
	case !a.Gate.Owns(pod.Spec.SchedulerName) && pod.Spec.NodeName == "":
		return explain.Reason{Code: explain.OtherScheduler, Detail: pod.Spec.SchedulerName}
	case len(gates) > 0:
		return explain.Reason{Code: explain.Gated, Detail: strings.Join(gates, ", ")}
	case a.Gate.Owns(pod.Spec.SchedulerName) && a.Gate.Manages(pod):
		return explain.Reason{Code: explain.Unseen}
	case pod.Spec.NodeName != "":
		return explain.Reason{Code: explain.Unplanned, Detail: "it runs"}
	}
	r := explain.Reason{Code: explain.Unplanned}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			r.Detail = c.Message
		}
	}
	return r
}

// firstWaiting is the first gang, by submission, that has members without a place; else the
// first.
func (v *View) firstWaiting(ids []engine.ID) (first engine.ID) {
	best := int64(0)
	waits := false
	for _, id := range ids {
		g, ok := v.Core.Gangs.Gang(id)
		if !ok {
			continue
		}
		members := 0
		for _, r := range g.Roles {
			members += len(r.Members)
		}
		w := v.Core.Gangs.Placed(id) < max(members, g.Min)
		if first == "" || w && !waits || w == waits && g.Submitted < best {
			first, best, waits = id, g.Submitted, w
		}
	}
	return cmp.Or(first, ids[0])
}
