package ledger

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// hostOf sums what claims use beside devices.
func hostOf(claims []Claim) (sum model.Host) {
	for i := range claims {
		sum = sum.Plus(claims[i].Host)
	}
	return sum
}

// extrasLeft is what claims leave of a node's extras, one amount for each entry of
// model.Node.Extras, in that order. Amounts are negative where claims use more than
// there is. nil while no claim uses any. Values are never changed: views share them.
type extrasLeft []int64

// extrasBeside is what claims leave of a node's extras.
func extrasBeside(n *model.Node, claims []Claim) extrasLeft {
	var left extrasLeft
	for i := range claims {
		left = left.take(n, claims[i].Extras, -1)
	}
	return left.settled(n)
}

// replace is what is left when one claim is there instead of another; either may be
// nil.
func (x extrasLeft) replace(n *model.Node, old, now *Claim) extrasLeft {
	var before, after model.Extras
	if old != nil {
		before = old.Extras
	}
	if now != nil {
		after = now.Extras
	}
	if before.Equal(after) {
		return x
	}
	return slices.Clone(x).take(n, before, +1).take(n, after, -1).settled(n)
}

// take adds an amount, or with sign -1 subtracts it, in place. Resources that the node
// does not publish are not counted: their free amount is always 0.
func (x extrasLeft) take(n *model.Node, amounts model.Extras, sign int64) extrasLeft {
	at, found := 0, false
	for _, a := range amounts {
		if at, found = seek(n.Extras, a.Name, at); !found {
			continue
		}
		if x == nil {
			x = make(extrasLeft, len(n.Extras))
			for i := range n.Extras {
				x[i] = n.Extras[i].Amount
			}
		}
		x[at] += sign * a.Amount
	}
	return x
}

// settled makes equal states have equal values: nil when all is left.
func (x extrasLeft) settled(n *model.Node) extrasLeft {
	for i := range x {
		if x[i] != n.Extras[i].Amount {
			return x
		}
	}
	return nil
}

// seek is the position of the first entry from one on whose name is not before a name, and
// whether it has the name.
func seek(all model.Extras, name string, from int) (at int, found bool) {
	for from < len(all) && all[from].Name != name && all[from].Name < name {
		from++
	}
	return from, from < len(all) && all[from].Name == name
}

// publishers counts, by name, the nodes that publish an extra.
type publishers map[string]int

// count adds one node that publishes extras, or with -1 takes one away.
func (p publishers) count(extras model.Extras, nodes int) {
	for _, e := range extras {
		if p[e.Name] += nodes; p[e.Name] == 0 {
			delete(p, e.Name)
		}
	}
}

func (p publishers) audit(nodes []*node) error {
	again := publishers{}
	for _, n := range nodes {
		again.count(n.inv.Extras, +1)
	}
	if !maps.Equal(p, again) {
		return fmt.Errorf("publishers %v, want %v", p, again)
	}
	return nil
}

// Publishes says whether, of everything a request needs beside devices, CPU and memory,
// at least one node has some. If not, no node covers it, and none need be asked.
func (l *Ledger) Publishes(r *model.Request) bool {
	return !slices.ContainsFunc(r.Extras, func(need model.Extra) bool { return l.publishers[need.Name] == 0 })
}

// Covers says whether the node has what a request needs beside devices: as
// kube-scheduler's NodeResourcesFit decides, for what is in Request.Host and
// Request.Extras.
func (v View) Covers(r *model.Request) bool {
	if !v.FreeHost.Covers(r.Host) {
		return false
	}
	at, found := 0, false
	for i := range r.Extras {
		need := &r.Extras[i]
		if at, found = seek(v.Node.Extras, need.Name, at); !found || v.leftOf(at) < need.Amount {
			return false
		}
	}
	return true
}

// Shortages yields what a request needs beside devices and the node has too little of:
// CPU, memory, then extras by name. None exactly when Covers is true.
func (v View) Shortages(r *model.Request) iter.Seq[model.Shortage] {
	return func(yield func(model.Shortage) bool) {
		goOn := func(name string, need, free, total int64) bool {
			return need <= 0 || need <= free || yield(model.Shortage{Name: name, Need: need, Free: free, Total: total})
		}
		if !goOn(model.CPUName, r.Host.CPU, v.FreeHost.CPU, v.Node.Host.CPU) ||
			!goOn(model.MemoryName, int64(r.Host.Memory), int64(v.FreeHost.Memory), int64(v.Node.Host.Memory)) {
			return
		}
		at, found := 0, false
		for _, need := range r.Extras {
			free, total := int64(0), int64(0)
			if at, found = seek(v.Node.Extras, need.Name, at); found {
				free, total = v.leftOf(at), v.Node.Extras[at].Amount
			}
			if !goOn(need.Name, need.Amount, free, total) {
				return
			}
		}
	}
}

// Shortage is the decisive one: the first of what is missing even when no pod is there, else
// the first of all. False when there is none.
func (v View) Shortage(r *model.Request) (out model.Shortage, short bool) {
	for s := range v.Shortages(r) {
		if s.Need > s.Total {
			return s, true
		}
		if !short {
			out, short = s, true
		}
	}
	return out, short
}

// FreeExtra is how much of a resource the claims leave: 0 when the node does not
// publish it, negative when claims use more than there is.
func (v View) FreeExtra(name string) int64 {
	if at, found := seek(v.Node.Extras, name, 0); found {
		return v.leftOf(at)
	}
	return 0
}

func (v View) leftOf(at int) int64 {
	if v.extras == nil {
		return v.Node.Extras[at].Amount
	}
	return v.extras[at]
}
