package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/release"
)

// Counters are what an engine counts and what it waits for, beside Passing. They matter to a
// copy that is told what this engine is told, tickets included.
type Counters struct {
	Memo     memo.SavedCounters
	Releases release.Counters
}

// Checkpoint returns events that bring a new engine with the same options to the state of this
// one: told the same from then on, both decide the same. It returns false while that is not
// possible: members are on their way to a Binding, or the last step has not come to its end.
//
// The caller applies RulesChanged first, so that this engine, like the new one, remembers no
// gang shapes that have no place. Cost: all nodes, claims and gangs.
func (e *Engine) Checkpoint() ([]Event, bool) {
	if e.releases.Open() > 0 || e.memo.Unfinished() || len(e.mends) > 0 {
		return nil, false
	}
	tree, held := e.cluster.Tree(), e.cluster.Ledger()
	out := []Event{QueuesSet{tree.Queues()}, QuotasSet{tree.Quotas()}}
	for _, id := range slices.Sorted(held.Nodes()) {
		v, _ := held.View(id)
		out = append(out, NodeSet{Node: v.Node, Telemetry: v.AllTelemetry()})
	}
	for node, claim := range held.AllClaims() {
		if k := e.cluster.GangOf(claim.Holder); k != nil && claim.Assumed {
			return nil, false
		}
		out = append(out, Bound{Node: node, Holders: []model.HolderID{claim.Holder}, Claims: []ledger.Claim{claim}})
	}
	bySubmission := func(a, b *tracked) int { return cmp.Or(cmp.Compare(a.Submitted, b.Submitted), cmp.Compare(a.ID, b.ID)) }
	for _, k := range slices.SortedFunc(maps.Values(e.cluster.Gangs()), bySubmission) {
		out = append(out, Submitted{k.Gang})
	}
	return append(out, FleetCounted{}, CountersRestored{Counters{e.memo.SaveCounters(), e.releases.SaveCounters()}},
		Restored{e.Save()}, PassingRestored{e.Passing()}), true
}

func (v CountersRestored) apply(e *Engine, _ *Outcome) {
	e.memo.RestoreCounters(v.Counters.Memo)
	e.releases.RestoreCounters(v.Counters.Releases)
}
