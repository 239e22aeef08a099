package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// The one text form of decisions: recordings are compared by it, tests show it.

// String is the plan, a line for each part of it; empty when there is nothing to do.
func (p Plan) String() string {
	var b strings.Builder
	for _, s := range p.Starts {
		fmt.Fprintf(&b, "start %s:", s.Gang)
		for _, at := range s.Plan.Placements {
			fmt.Fprintf(&b, " %s on %s", at.Holder, where(at.Node, &at.Grant))
		}
		if s.Repair {
			b.WriteString(" (joins what runs)")
		}
		if s.Promised > 0 {
			fmt.Fprintf(&b, " (promised for %s)", clock(s.Promised))
		}
		b.WriteByte('\n')
	}
	for _, x := range p.Evicts {
		fmt.Fprintf(&b, "evict for %s: %s\n", x.For, names(x.Members))
	}
	writeEffects(&b, &p.Effects)
	if p.More {
		b.WriteString("more to decide\n")
	}
	if p.Wake > 0 {
		fmt.Fprintf(&b, "wake at %s\n", clock(p.Wake))
	}
	return b.String()
}

// String is the outcome, a line for each part of it; empty when there is nothing to say.
func (o Outcome) String() string {
	var b strings.Builder
	if o.Err != nil {
		fmt.Fprintf(&b, "refused: %v\n", o.Err)
	}
	if o.Refusal != nil {
		fmt.Fprintf(&b, "refused: %s %v\n", o.Refusal.Code, *o.Refusal)
	}
	if o.Release.Node != nil {
		fmt.Fprintf(&b, "placed %s on %s\n", o.Release.Holder, where(o.Release.Node.ID, &o.Release.Grant))
	}
	if o.Ready {
		fmt.Fprintf(&b, "all may be bound: %s\n", names(o.Others))
	}
	writeEffects(&b, &o.Effects)
	return b.String()
}

func writeEffects(b *strings.Builder, fx *Effects) {
	list := func(verb string, members []model.HolderID) {
		if len(members) > 0 {
			fmt.Fprintf(b, "%s %s\n", verb, names(members))
		}
	}
	list("revoke", fx.Revoked)
	list("stop", fx.Stop)
	for _, r := range fx.Released {
		fmt.Fprintf(b, "release %s to %s, ticket %d\n", r.Holder, where(r.Node.ID, &r.Grant), r.Ticket)
	}
	list("activate", fx.Activate)
	list("requeue", fx.Requeue)
}

// where is a node with the devices that are given there.
func where(node model.NodeID, g *place.Grant) string {
	out := string(node)
	slots := slices.Collect(g.Set.Slots())
	if len(g.Parts) == 0 {
		if len(slots) > 0 {
			out += fmt.Sprint(slots)
		}
		return out
	}
	for _, p := range g.Parts {
		out += fmt.Sprintf("[%d %v", p.Slot, p.Part)
		if p.Memory > 0 {
			out += fmt.Sprintf(" %dMi", p.Memory)
		}
		if p.Part.Kind == model.Slice {
			out += fmt.Sprintf(" at %d", p.Start)
		}
		out += "]"
	}
	return out
}

func names(hs []model.HolderID) string {
	out := make([]string, len(hs))
	for i, h := range hs {
		out[i] = string(h)
	}
	return strings.Join(out, " ")
}

// clock is a time in seconds of the engine's clock.
func clock(at int64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.3f", float64(at)/1e9), "0"), ".") + "s"
}
