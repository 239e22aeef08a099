package engine

import (
	"cmp"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
)

// Refusal is that a gang does not start now, for another reason than before.
type Refusal struct {
	// Gang is its name, Queue where it waits, Pod its first waiting member, of Members.
	Gang, Queue string
	Pod         *v1.Pod
	Members     int
	Reason      explain.Reason
}

// refusals remembers for which reason each gang was last refused, for the audit log; nil
// where nobody asks. Numbers in reasons change with every pod that comes or goes, so what
// counts is the causes.
type refusals map[engine.ID]string

// WatchRefusals makes steps return refusals.
func (e *Engine) WatchRefusals() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refusals = refusals{}
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
func (e *Engine) refused(t *Turn, id engine.ID, why *explain.Reason, waiting []*v1.Pod) {
	if e.refusals == nil || len(waiting) == 0 || !e.refusals.changed(id, why) {
		return
	}
	out := Refusal{Pod: waiting[0], Members: len(waiting), Reason: *why}
	if g, known := e.core.Gang(id); known {
		out.Gang, out.Queue = g.Name, cmp.Or(g.Queue, arbiter.Default)
	}
	t.Refusals = append(t.Refusals, out)
}

// forget forgets what a gang was told: it is gone, or has its place.
func (e *Engine) forget(id engine.ID) {
	e.desk.Forget(id)
	delete(e.refusals, id)
	delete(e.observed.reasons, id)
	e.demands.drop(id)
}
