package engine

import (
	"fmt"
	"strings"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
)

// Reason is why a gang does not start. The zero value is none.
type Reason struct {
	// Quota: it waits for its queue or namespace; otherwise for capacity, or for
	// members that do not exist yet.
	Quota bool
	// Incomplete: fewer members exist than it needs.
	Incomplete bool
	// Never: it can never fit on the nodes there are, or asks for more than its quota.
	Never bool
	Text  string
	// Failure has the details when it waits for capacity; may be nil.
	Failure *gang.Failure
}

// Why says why a gang waits. Of one that runs the reason is that of its missing
// members, if any. It is found anew each time, at the cost of a plan and of a look at
// every kind of node.
func (e *Engine) Why(id ID) Reason {
	defer e.enter()()
	k := e.gangs[id]
	switch {
	case k == nil || len(k.placed) > 0 && len(k.placed) >= k.exists && k.missing() == 0:
		return Reason{}
	case k.missing() > 0 && !k.complete():
		for _, r := range k.Roles {
			if k.exists >= k.Min && len(r.Members) < r.Min {
				return Reason{Incomplete: true, Text: fmt.Sprintf("waits for members: %d of %d of role %q exist", len(r.Members), r.Min, r.Name)}
			}
		}
		return Reason{Incomplete: true, Text: fmt.Sprintf("waits for members: %d of %d exist", k.exists, k.Min)}
	}
	waits := len(k.placed) == 0
	wait := e.wait(k, max(1, k.missing()))
	if wait.ForQuota() {
		return Reason{Quota: true, Never: wait.Never(), Text: spellWait(wait)}
	}
	if f := e.never(k); f != nil && waits {
		return Reason{Never: true, Text: "can never fit: " + f.String(), Failure: f}
	}
	if waits && !e.tree.Ever(arbiter.JobID(id)) {
		return Reason{Never: true, Text: "can never start beside what is guaranteed to other queues: " + strings.TrimPrefix(spellWait(wait), "waits for capacity: ")}
	}
	failure := e.explain(k)
	switch {
	case failure != nil:
		return Reason{Text: "waits for capacity: " + failure.String(), Failure: failure}
	case wait.Code != 0:
		return Reason{Text: spellWait(wait)}
	case waits && e.takesReservedQuota(k, e.end(k, e.now)):
		return Reason{Quota: true, Text: "waits for quota: what is left of it is kept for gangs that came before"}
	case e.closing(k, e.now) != nil:
		return Reason{Text: "waits for capacity: nodes it could use are kept for gangs that came before"}
	}
	return Reason{Text: "waits for its turn"}
}

// explain plans a gang for the reasons only, as if nothing were reserved.
func (e *Engine) explain(k *known) *gang.Failure {
	tx := e.ledger.Begin()
	defer tx.Rollback()
	ask := k.ask(max(1, k.missing()))
	e.constrain(k, ask, nil)
	ask.Terse = false
	_, failure := gang.Make(e.ledger, e.planner, ask)
	return failure
}

// maxNever bounds how many shapes' fate is remembered.
const maxNever = 4096

// never says why a gang can never fit, or nil. It is asked once per shape, until the
// fleet changes.
func (e *Engine) never(k *known) *gang.Failure {
	if v := e.ledger.FleetVersion(); v != e.neverFleet || len(e.nevers) > maxNever {
		e.neverFleet = v
		clear(e.nevers)
	}
	f, known := e.nevers[k.shape]
	if !known {
		if e.empty == nil {
			e.empty = gang.NewEmpty(e.ledger)
		}
		whole := &gang.Ask{Min: k.Min, Require: k.Require}
		for _, r := range k.Roles {
			whole.Roles = append(whole.Roles, gang.Role{Name: r.Name, Request: r.Request, Members: r.Members, Min: r.Min})
		}
		e.constrain(k, whole, nil)
		if e.options.Ever != nil {
			whole.May = func(role int, node model.NodeID) bool { return e.options.Ever(k.Roles[role].Request, node) }
		}
		f = e.empty.Never(whole)
		e.nevers[k.shape] = f
	}
	return f
}
