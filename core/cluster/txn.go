package cluster

import (
	"slices"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// Txn is a hypothesis over ledger and queues: what is done in it is kept or taken back, at
// the cost of what it touched. Hypotheses nest; they must end in reverse order, each
// exactly once.
type Txn struct {
	c     *Cluster
	tx    *ledger.Tx
	undos []func()
}

// Begin starts a hypothesis.
func (c *Cluster) Begin() *Txn { return &Txn{c: c, tx: c.ledger.Begin()} }

// Keep makes the changes of the ledger stay; those of queues are taken back.
func (t *Txn) Keep() {
	t.undo()
	t.tx.Keep()
}

// Rollback restores what Begin saw.
func (t *Txn) Rollback() {
	t.undo()
	t.tx.Rollback()
}

func (t *Txn) undo() {
	for _, undo := range slices.Backward(t.undos) {
		undo()
	}
}

// Drop takes what a holder has out of the ledger.
func (t *Txn) Drop(h model.HolderID) { t.c.ledger.Drop(h) }

// DropPromises takes out of the ledger all that is not confirmed.
func (t *Txn) DropPromises() {
	for _, h := range t.c.ledger.Assumed() {
		t.c.ledger.Forget(h)
	}
}

// Discharge shows the queues a gang without some members that have a place.
func (t *Txn) Discharge(k *Tracked, members []model.HolderID) {
	var amounts arbiter.Amounts
	for _, h := range members {
		amounts = amounts.Plus(k.placed[h].Charge)
	}
	id := arbiter.JobID(k.ID)
	if t.c.tree.Shrink(id, amounts) == nil {
		t.undos = append(t.undos, func() { _ = t.c.tree.Charge(arbiter.Job{ID: id}, amounts) }) // as it was
	}
}

// Start shows the queues a gang as if what it needs had started.
func (t *Txn) Start(k *Tracked) {
	sum := map[arbiter.Resource]int64{}
	for i, role := range k.Demand().Roles {
		t.c.AddTo(sum, &k.Roles[i], len(role.Members))
	}
	job, amounts := t.c.job(k), arbiter.NewAmounts(sum)
	if len(k.placed) == 0 {
		t.c.tree.Remove(job.ID) // a gang that is found running takes no turn
		t.undos = append(t.undos, func() { t.c.Recount(k) })
	} else {
		t.undos = append(t.undos, func() { _ = t.c.tree.Shrink(job.ID, amounts) })
	}
	_ = t.c.tree.Charge(job, amounts) // never negative
}

// Plan finds places for what a gang asks for. They are held in the ledger while the
// hypothesis lasts.
func (t *Txn) Plan(ask *gang.Ask) (gang.Plan, *gang.Failure) {
	return gang.Make(t.c.ledger, t.c.planner, ask)
}
