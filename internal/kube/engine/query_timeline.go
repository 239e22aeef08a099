package engine

import (
	"fmt"
	"slices"
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
)

// maxEventNodes bounds how many nodes an event names.
const maxEventNodes = 16

// Timeline are the events after a version, the oldest first; 0: all that are remembered.
// Texts name no other gang.
func (e *Engine) Timeline(since uint64) apiquery.Timeline { return e.pictures.timeline.after(since) }

// event begins an event about a gang. The caller holds the lock.
func (e *Engine) event(kind string, g *engine.Gang, now time.Time) apiquery.Event {
	queue := g.Queue
	if queue == "" {
		queue = arbiter.Default
	}
	return apiquery.Event{At: now, Kind: kind, Gang: gangRef(g), Queue: queue}
}

// recordStep writes down what a step decided. The caller holds the lock.
func (e *Engine) recordStep(plan *engine.Plan, now time.Time) {
	for i := range plan.Starts {
		s := &plan.Starts[i]
		g, ok := e.core.Gang(s.Gang)
		if !ok {
			continue
		}
		ev := e.event(apiquery.EventPlaced, &g, now)
		for _, p := range s.Plan.Placements {
			ev.Nodes = withNode(ev.Nodes, p.Node)
			ev.Milli += e.held(p.Holder)
		}
		ev.Text = fmt.Sprintf("%s placed on %s", pods(len(s.Plan.Placements)), nodes(len(ev.Nodes)))
		e.namePod(&ev, s.Plan.Placements[0].Holder, len(s.Plan.Placements))
		if e.stages[s.Gang] != runs { // else it grows, or gets members back
			e.stages[s.Gang] = isPlaced
		}
		e.pictures.timeline.add(ev)
	}
	for i := range plan.Evicts {
		e.recordEviction(&plan.Evicts[i], now)
	}
	for _, id := range e.core.ReservedFor() {
		e.recordReservation(id, now)
	}
}

// recordReservation writes down that nodes are kept for a gang, once until it starts:
// reservations are made anew as things change.
func (e *Engine) recordReservation(id engine.ID, now time.Time) {
	g, ok := e.core.Gang(id)
	if !ok || e.stages[id] != waits {
		return
	}
	e.stages[id] = hasNodesKept
	ev := e.event(apiquery.EventReserved, &g, now)
	at, kept, _ := e.core.Reservation(id)
	for _, n := range kept {
		ev.Nodes = withNode(ev.Nodes, n)
	}
	ev.Text = nodes(len(kept)) + " kept for it"
	if at > 0 {
		ev.Text += ", start expected at " + time.Unix(0, at).UTC().Format(time.RFC3339)
	}
	e.pictures.timeline.add(ev)
}

// recordEviction writes down who has to go, gang by gang.
func (e *Engine) recordEviction(x *engine.Evict, now time.Time) {
	var made *apiquery.GangRef
	if g, ok := e.core.Gang(x.For); ok {
		ref := gangRef(&g)
		made = &ref
	}
	byGang := map[engine.ID][]model.HolderID{}
	var order []engine.ID
	for _, h := range x.Members {
		if id, ok := e.core.Of(h); ok {
			if byGang[id] == nil {
				order = append(order, id)
			}
			byGang[id] = append(byGang[id], h)
		}
	}
	for _, id := range order {
		g, ok := e.core.Gang(id)
		if !ok {
			continue
		}
		ev := e.event(apiquery.EventEvicted, &g, now)
		for _, h := range byGang[id] {
			ev.Nodes = withNode(ev.Nodes, e.core.NodeOf(h))
			ev.Milli += e.held(h)
		}
		ev.For, ev.Text = made, pods(len(byGang[id]))+" evicted"
		e.namePod(&ev, byGang[id][0], len(byGang[id]))
		e.pictures.timeline.add(ev)
	}
}

// stage is how far the timeline has told of a gang.
type stage uint8

const (
	waits stage = iota
	hasNodesKept
	isPlaced
	runs
)

// recordGang writes down that something happened to a whole gang. The caller holds the lock.
func (e *Engine) recordGang(kind string, id engine.ID, text string, now time.Time) {
	if g, ok := e.core.Gang(id); ok && e.observed.leads {
		ev := e.event(kind, &g, now)
		ev.Text = text
		e.pictures.timeline.add(ev)
	}
}

// recordBound writes down that a gang runs, when the last of its members that were placed is
// bound. The caller holds the lock.
func (e *Engine) recordBound(h model.HolderID, now time.Time) {
	id, ok := e.core.Of(h)
	if !ok || e.stages[id] != isPlaced {
		return
	}
	if placed, bound := e.core.CountSeats(id); bound == placed && placed > 0 {
		e.stages[id] = runs
		e.recordGang(apiquery.EventStarted, id, pods(bound)+" bound", now)
	}
}

// recordFailure writes down that a start was taken back, once for all members that were
// placed together. The caller holds the lock.
func (e *Engine) recordFailure(h model.HolderID, why string, now time.Time) {
	id, ok := e.core.Of(h)
	if !ok || e.stages[id] != isPlaced || e.core.NodeOf(h) != "" { // or it tries again
		return
	}
	e.stages[id] = waits
	text := "its start was taken back"
	if why != "" {
		text += ": " + why
	}
	e.recordGang(apiquery.EventFailed, id, text, now)
}

// recordKnown takes note of a gang that runs without having been placed by this process.
func (e *Engine) recordKnown(id engine.ID) {
	if e.stages[id] == waits && e.core.Placed(id) > 0 {
		e.stages[id] = runs
	}
}

// recordEnd writes down that a gang is gone. The caller holds the lock, and withdraws it
// afterwards.
func (e *Engine) recordEnd(id engine.ID, now time.Time) {
	if e.stages[id] == runs {
		e.recordGang(apiquery.EventEnded, id, "all of its pods are gone", now)
	}
	delete(e.stages, id)
}

// namePod names the pod of an event about one.
func (e *Engine) namePod(ev *apiquery.Event, h model.HolderID, of int) {
	if m := e.work.Member(h); m != nil && of == 1 {
		ref := podAnswer(m)
		ev.Pod = &ref
	}
}

// held is what a holder has of GPUs, in thousandths.
func (e *Engine) held(h model.HolderID) (milli int64) {
	for _, hold := range e.core.Holding(h) {
		milli += hold.Milli
	}
	return milli
}

// withNode adds a node to those that an event names.
func withNode(list []string, node model.NodeID) []string {
	if node == "" || len(list) == maxEventNodes || slices.Contains(list, string(node)) {
		return list
	}
	return append(list, string(node))
}

// pods and nodes are numbers of them in words.
func pods(n int) string { return count(n, "pod") }

func nodes(n int) string { return count(n, "node") }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
