package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
)

// maxEventNodes bounds how many nodes an event names.
const maxEventNodes = 16

// eventAbout begins an event about a gang.
func eventAbout(kind string, g *engine.Gang, now time.Time) apiquery.Event {
	return apiquery.Event{At: now, Kind: kind, Gang: GangRef(g), Queue: cmp.Or(g.Queue, arbiter.Default)}
}

// GangRef names a gang.
func GangRef(g *engine.Gang) apiquery.GangRef {
	return apiquery.GangRef{Namespace: g.Namespace, Name: strings.TrimPrefix(g.Name, g.Namespace+"/")}
}

// PodRef names a pod.
func PodRef(p *v1.Pod) apiquery.PodRef {
	return apiquery.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

// recordStep records what a step decided.
func (o *Observer) recordStep(plan *engine.Plan, now time.Time) {
	for i := range plan.Starts {
		s := &plan.Starts[i]
		g, ok := o.core.Gangs.Gang(s.Gang)
		if !ok {
			continue
		}
		ev := eventAbout(apiquery.EventPlaced, &g, now)
		for _, p := range s.Plan.Placements {
			ev.Nodes = withNode(ev.Nodes, p.Node)
			ev.Milli += o.held(p.Holder)
		}
		ev.Text = fmt.Sprintf("%s placed on %s", pods(len(s.Plan.Placements)), nodes(len(ev.Nodes)))
		o.namePod(&ev, s.Plan.Placements[0].Holder, len(s.Plan.Placements))
		if o.stages[s.Gang] != runs { // else it grows, or gets members back
			o.stages[s.Gang] = isPlaced
		}
		o.timeline.add(ev)
	}
	for i := range plan.Evicts {
		o.recordEviction(&plan.Evicts[i], now)
	}
	for _, id := range o.core.Gangs.ReservedFor() {
		o.recordReservation(id, now)
	}
}

// recordReservation records that nodes are kept for a gang, once until it starts:
// reservations are made anew as things change.
func (o *Observer) recordReservation(id engine.ID, now time.Time) {
	g, ok := o.core.Gangs.Gang(id)
	if !ok || o.stages[id] != waits {
		return
	}
	o.stages[id] = hasNodesKept
	ev := eventAbout(apiquery.EventReserved, &g, now)
	at, kept, _ := o.core.Gangs.Reservation(id)
	for _, n := range kept {
		ev.Nodes = withNode(ev.Nodes, n)
	}
	ev.Text = nodes(len(kept)) + " kept for it"
	if at > 0 {
		ev.Text += ", start expected at " + time.Unix(0, at).UTC().Format(time.RFC3339)
	}
	o.timeline.add(ev)
}

// recordEviction records evictions, gang by gang.
func (o *Observer) recordEviction(x *engine.Evict, now time.Time) {
	var made *apiquery.GangRef
	if g, ok := o.core.Gangs.Gang(x.For); ok {
		ref := GangRef(&g)
		made = &ref
	}
	byGang := map[engine.ID][]model.HolderID{}
	var order []engine.ID
	for _, h := range x.Members {
		if id, ok := o.core.Gangs.Of(h); ok {
			if byGang[id] == nil {
				order = append(order, id)
			}
			byGang[id] = append(byGang[id], h)
		}
	}
	for _, id := range order {
		g, ok := o.core.Gangs.Gang(id)
		if !ok {
			continue
		}
		ev := eventAbout(apiquery.EventEvicted, &g, now)
		for _, h := range byGang[id] {
			ev.Nodes = withNode(ev.Nodes, o.core.Gangs.NodeOf(h))
			ev.Milli += o.held(h)
		}
		ev.For, ev.Text = made, pods(len(byGang[id]))+" evicted"
		o.namePod(&ev, byGang[id][0], len(byGang[id]))
		o.timeline.add(ev)
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

// recordGang records that something happened to a whole gang.
func (o *Observer) recordGang(kind string, id engine.ID, text string, now time.Time) {
	if g, ok := o.core.Gangs.Gang(id); ok && o.leads {
		ev := eventAbout(kind, &g, now)
		ev.Text = text
		o.timeline.add(ev)
	}
}

// recordBound records that a gang runs, when the last of its members that were placed is
// bound.
func (o *Observer) recordBound(h model.HolderID, now time.Time) {
	id, ok := o.core.Gangs.Of(h)
	if !ok || o.stages[id] != isPlaced {
		return
	}
	if placed, bound := o.core.Gangs.CountSeats(id); bound == placed && placed > 0 {
		o.stages[id] = runs
		o.recordGang(apiquery.EventStarted, id, pods(bound)+" bound", now)
	}
}

// Failed records that a start was taken back, once for all members that were placed
// together.
func (o *Observer) Failed(h model.HolderID, why string, now time.Time) {
	if o == nil {
		return
	}
	id, ok := o.core.Gangs.Of(h)
	if !ok || o.stages[id] != isPlaced || o.core.Gangs.NodeOf(h) != "" { // or it tries again
		return
	}
	o.stages[id] = waits
	text := "its start was taken back"
	if why != "" {
		text += ": " + why
	}
	o.recordGang(apiquery.EventFailed, id, text, now)
}

// Withdrawn records that a gang is gone. It is called before core forgets the gang.
func (o *Observer) Withdrawn(id engine.ID, now time.Time) {
	if o == nil {
		return
	}
	if o.stages[id] == runs {
		o.recordGang(apiquery.EventEnded, id, "all of its pods are gone", now)
	}
	delete(o.stages, id)
}

// namePod names the pod of an event about one.
func (o *Observer) namePod(ev *apiquery.Event, h model.HolderID, of int) {
	if m := o.work.Member(h); m != nil && of == 1 {
		ref := PodRef(m.Pod)
		ev.Pod = &ref
	}
}

// held is what a holder has of GPUs, in thousandths.
func (o *Observer) held(h model.HolderID) (milli int64) {
	for _, hold := range o.core.Figures.Holding(h) {
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
func pods(n int) string  { return count(n, "pod") }
func nodes(n int) string { return count(n, "node") }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
