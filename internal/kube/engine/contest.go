package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
	"github.com/tangram-dev/tangram/internal/kube/report"
)

// contestGrace is how long two records may name one device on a node with an agent. The
// agent corrects records to what containers really have, one pod after the other: while
// two pods exchange devices, both name one. Kubelet never gives a device to two
// containers, so it is a record that is wrong, and the agent will say so. On a node
// without an agent nobody corrects anything, and there is nothing to wait for.
const contestGrace = 30 * time.Second

// contest is a pod whose record names a device that another holds which was seen first.
type contest struct {
	node    model.NodeID
	pod     *v1.Pod
	message string
	// record is the pod's, and since when it is contested as it is.
	record string
	since  time.Time
	// open: the record is contested now. told: it was reported, which happens once,
	// since which pod holds a device may change with every pod that ends. healed: the pod
	// was told to go.
	open, told, healed bool
	// certain: this process itself gave the device to the other. Of two pods that are known
	// by their records only, neither is told to go: one of the records may be forged, and
	// which of them the agent on the node knows, not we.
	certain bool
}

// findContested takes note of pods on a node whose records cannot be honoured, because
// others hold the devices they name, and of those that can again.
func (e *Engine) findContested(id model.NodeID, now time.Time) {
	found := e.core.Contested(id)
	if len(found) == 0 && len(e.contested) == 0 {
		return // as nearly always
	}
	still := map[string]bool{}
	for _, c := range found {
		uid := dialect.UIDOf(c.Holder)
		x := e.contested[uid]
		if x == nil || x.node != id {
			x = &contest{node: id}
			e.contested[uid] = x
		}
		still[uid] = true
		if x.pod = e.latest(uid, x.pod); x.pod != nil {
			if text := x.pod.Annotations[names.AnnotationDevices]; !x.open || text != x.record {
				x.record, x.since = text, now
			}
		}
		x.certain = c.Certain
		if x.open = true; x.told {
			continue
		}
		x.message = dialect.Contested(c)
		if older := e.podOf(dialect.UIDOf(e.core.HolderOf(id, c.Index))); older != nil {
			holder := fmt.Sprintf("pod %s/%s", older.Namespace, older.Name)
			if x.pod == nil || x.pod.Namespace != older.Namespace {
				holder = "a pod of another namespace" // the message is an event that the pod's owner reads
			}
			x.message += "; " + holder + " holds it"
		}
	}
	for uid, x := range e.contested { // each for itself
		if x.node != id || still[uid] {
			continue
		}
		if x.open = false; !x.told {
			delete(e.contested, uid)
		}
	}
	e.tellContested(now)
}

// latest is a pod as the store has it now, known from before or not; nil when it is gone.
func (e *Engine) latest(uid string, known *v1.Pod) *v1.Pod {
	if known == nil {
		return e.podOf(uid)
	}
	if p, err := e.pods.Pods(known.Namespace).Get(known.Name); err == nil && string(p.UID) == uid {
		return p
	}
	return nil
}

// due is when a contest is taken seriously.
func (e *Engine) due(x *contest) time.Time {
	if e.agents[x.node] {
		return x.since.Add(e.timing.Contest)
	}
	return x.since
}

// lasting are the pods whose records are contested, and have been for long enough, by
// UID.
func (e *Engine) lasting(now time.Time) []string {
	if len(e.contested) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(e.contested)), func(uid string) bool {
		x := e.contested[uid]
		return !x.open || x.pod == nil || now.Before(e.due(x))
	})
}

// tellContested reports contests that are taken seriously, each once.
func (e *Engine) tellContested(now time.Time) {
	for _, uid := range e.lasting(now) {
		if x := e.contested[uid]; !x.told {
			x.told = true
			if !e.copied {
				metrics.Conflict(metrics.ConflictRecord)
			}
			e.complaints = append(e.complaints, report.Complaint{About: podRef(x.pod), Reason: dialect.ContestedRecord, Message: x.message})
		}
	}
}

// heal returns pods of this scheduler that are on devices which this process gave to
// others, and that have not been told to go. All others are only reported.
func (e *Engine) heal(now time.Time) (out []Victim) {
	e.tellContested(now)
	for _, uid := range e.lasting(now) {
		if x := e.contested[uid]; x.certain && !x.healed && x.pod.DeletionTimestamp == nil &&
			e.reader.Owns(x.pod.Spec.SchedulerName) && !e.reader.Protected(x.pod) {
			x.healed = true
			h := model.HolderID(x.pod.UID)
			out = append(out, Victim{Pod: x.pod, Why: x.message, Gang: e.nameOf(h), Queue: e.core.QueueOf(h)})
		}
	}
	return out
}

// nextContest is when the next contest is taken seriously; zero when none is open.
func (e *Engine) nextContest() (next time.Time) {
	for _, x := range e.contested { // the soonest does not depend on the order
		if at := e.due(x); x.open && !x.told && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// HealFailed tells that a pod could not be told to go: it is tried again.
func (e *Engine) HealFailed(v Victim) {
	e.do("heal", func(time.Time) {
		if x := e.contested[string(v.Pod.UID)]; x != nil {
			x.healed = false
		}
	})
}
