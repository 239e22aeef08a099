package engine

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// A step looks for few reasons: finding one costs a plan and a look at every node.
const (
	tellPerStep = 32
	// nodesPerStep bounds the nodes that are looked at: about a millisecond under the lock.
	nodesPerStep = 4_000
)

// tellWhy finds what is new about gangs that wait.
func (d *driver) tellWhy(t *Turn, now time.Time) {
	looked := 0
	for range tellPerStep {
		if looked += 1 + len(d.facts.nodes); looked > nodesPerStep && looked > 1+len(d.facts.nodes) {
			return
		}
		id, ok := d.notices.Due(now)
		if !ok {
			return
		}
		if !d.work.Waits(id, d.gate.releases.has) {
			if d.work.Waits(id, func(model.HolderID) bool { return false }) {
				d.notices.AskSoon(id, now) // it is on its way, and may come back
			} else {
				d.forget(id)
			}
			continue
		}
		reason := d.core.Reasons.Why(id)
		if !reason.Is() {
			d.demands.Drop(id)
			d.notices.AskAgain(id, now)
			continue
		}
		if reason.Code == explain.Members {
			d.demands.Drop(id)
			if l, unsure := d.work.Unsure(id); unsure {
				t.Lookups = append(t.Lookups, l) // told when that is known
				continue
			}
		}
		var waiting []*v1.Pod
		for _, m := range d.work.Pods(id) {
			if m.Pod.Spec.NodeName == "" && !d.gate.releases.has(model.HolderID(m.Pod.UID)) {
				waiting = append(waiting, m.Pod)
			}
		}
		d.observer.WaitsFor(id, reason.Code, len(waiting))
		d.refused(t, id, &reason, waiting)
		kind := d.demands.Kind(id, &reason, now)
		t.Notices = append(t.Notices, d.notices.Tell(id, &reason, kind, waiting, d.shows, now)...)
		d.notices.AskAgain(id, now)
	}
}

// shows is what a pod's condition says of why it waits, in one word and in a sentence;
// empty when it says nothing.
func (d *driver) shows(pod *v1.Pod) (kind, text string) {
	latest, err := d.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || latest.UID != pod.UID {
		return "", ""
	}
	for _, c := range latest.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return c.Reason, c.Message
		}
	}
	return "", ""
}

// Refusal is that a gang does not start now, for another reason than before.
type Refusal struct {
	// Gang is its name, Queue where it waits, Pod its first waiting member, of Members.
	Gang, Queue string
	Pod         *v1.Pod
	Members     int
	Reason      explain.Reason
}

// refusals remembers for which reason each gang was last refused, for the audit log; nil
// where there is none. Numbers in reasons change with every pod that comes or goes, so what
// counts is the causes.
type refusals map[engine.ID]string

// WatchRefusals makes steps return refusals.
func (e *Engine) WatchRefusals() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.driver.refusals = refusals{}
}

// changed says whether the causes are others than the last time.
func (r refusals) changed(id engine.ID, why *explain.Reason) bool {
	causes := []string{fmt.Sprint(why.Code, why.Never, why.Queue, why.Namespace, why.Resource)}
	for _, l := range why.Nodes.Lines() {
		causes = append(causes, l.Code.String())
	}
	key := strings.Join(causes, " ")
	if r[id] == key {
		return false
	}
	r[id] = key
	return true
}

// refused adds a gang's refusal to a turn, if it is new.
func (d *driver) refused(t *Turn, id engine.ID, why *explain.Reason, waiting []*v1.Pod) {
	if d.refusals == nil || len(waiting) == 0 || !d.refusals.changed(id, why) {
		return
	}
	out := Refusal{Pod: waiting[0], Members: len(waiting), Reason: *why}
	if g, there := d.core.Gangs.Gang(id); there {
		out.Gang, out.Queue = g.Name, cmp.Or(g.Queue, arbiter.Default)
	}
	t.Refusals = append(t.Refusals, out)
}

// forget forgets what a gang was told: it is gone, or has its place.
func (d *driver) forget(id engine.ID) {
	d.notices.Forget(id)
	delete(d.refusals, id)
	d.observer.Settled(id)
	d.demands.Drop(id)
}
