package ledger

import "github.com/tangram-dev/tangram/core/model"

// journal remembers how to undo what happened since transactions began. Empty
// and idle when none is open.
type journal struct {
	entries []undo
	open    int
}

// undo is the value a claim or an inventory had before a change.
type undo struct {
	node model.NodeID
	// isClaim: restore the holder's claim; otherwise the node's inventory. nil
	// means there was none.
	isClaim   bool
	holder    model.HolderID
	claim     *Claim
	inventory *model.Node
	telemetry []model.Telemetry // of that inventory
}

func (j *journal) claim(id model.NodeID, h model.HolderID, old *Claim) {
	if j.open > 0 {
		j.entries = append(j.entries, undo{node: id, isClaim: true, holder: h, claim: old})
	}
}

func (j *journal) inventory(n *node) {
	if j.open > 0 {
		j.entries = append(j.entries, undo{node: n.id, inventory: n.inv, telemetry: n.telemetry})
	}
}

// Tx is a trial: what is done to the ledger after Begin can be kept or rolled
// back. Trials nest; they must end in reverse order, each exactly once.
type Tx struct {
	l    *Ledger
	from int
}

// Begin starts a trial.
func (l *Ledger) Begin() *Tx {
	l.journal.open++
	return &Tx{l, len(l.journal.entries)}
}

// Keep makes the trial's changes stay (until an enclosing trial is rolled back).
func (t *Tx) Keep() {
	j := &t.l.journal
	if j.open--; j.open == 0 {
		j.entries = nil
	}
}

// Rollback restores the state Begin saw. Its cost is that of the changes undone.
func (t *Tx) Rollback() {
	j := &t.l.journal
	entries := j.entries
	j.open-- // so that undoing is not journaled when this is the outermost trial
	outer := j.open
	j.open = 0
	for i := len(entries) - 1; i >= t.from; i-- {
		e := entries[i]
		if e.isClaim {
			t.l.setClaim(e.node, e.holder, e.claim)
		} else {
			t.l.setInventory(e.node, e.inventory)
			t.l.SetTelemetry(e.node, e.telemetry)
		}
	}
	j.open = outer
	j.entries = entries[:t.from]
}
