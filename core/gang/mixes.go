package gang

import (
	"slices"
	"strconv"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// mix is how many members of each role of a weighing share a node.
type mix []int

// likeness is equal for nodes that accept the same mixes.
type likeness struct {
	kind *ledger.Kind
	held model.Mask
	room [maxRoles]int16 // of the roles' vendors
	host model.Host
	// extras are the amounts of the extended resources that members ask for, in their
	// order.
	extras string
	may    uint8 // which roles may go there, a bit for each
	// own is the ID of a node that is not known to equal any other.
	own model.NodeID
}

// likeness.may has one bit for each role that is weighed.
const _ = uint(8 - maxRoles)

// like is a node's likeness.
func (w *weighing) like(id model.NodeID, v *ledger.View) likeness {
	l := likeness{kind: v.Kind, held: v.Held}
	// More than all members need together makes no difference.
	l.host = model.Host{CPU: min(v.FreeHost.CPU, w.host.CPU), Memory: min(v.FreeHost.Memory, w.host.Memory)}
	var extras []byte
	for _, need := range w.extras {
		extras = append(strconv.AppendInt(extras, min(v.FreeExtra(need.Name), need.Amount), 10), ' ')
	}
	l.extras = string(extras)
	for i, role := range w.roles {
		if r := w.ask.Roles[role].Request; r.Vendor != "" {
			l.room[i] = int16(v.Room(r.Vendor))
		}
		if w.may(role, id) {
			l.may |= 1 << i
		}
	}
	if v.Shared != 0 || !w.plain {
		l.own = id
	}
	return l
}

// mixes lists the maximal mixes a node accepts: none is part of another. It tries them
// with the devices that Fit chooses.
func (w *weighing) mixes(id model.NodeID, l likeness) []mix {
	var out []mix
	for _, order := range w.orders(id) {
		w.extend(id, l, order, make(mix, len(w.roles)), nil, func(m mix) { out = append(out, slices.Clone(m)) })
	}
	w.steps -= len(out) * len(out)
	// The largest first, so that a mix can only be part of an earlier one.
	slices.SortStableFunc(out, func(a, b mix) int { return b.sum() - a.sum() })
	best := out[:0]
	for _, m := range out {
		if m.sum() > 0 && !slices.ContainsFunc(best, m.within) {
			best = append(best, m)
		}
	}
	return best
}

// orders lists the orders in which roles are tried on a node. If all devices are equal
// to all roles, one order is enough. Otherwise an earlier role may take what a later
// one needs; of more than three roles only some orders are tried.
func (w *weighing) orders(id model.NodeID) [][]int {
	order := make([]int, len(w.roles))
	for i := range order {
		order[i] = i
	}
	v, _ := w.l.View(id)
	different := slices.ContainsFunc(v.Node.Devices, func(d model.Device) bool { return d.Model != v.Node.Devices[0].Model })
	if w.plain && !different {
		return [][]int{order}
	}
	var out [][]int
	for range order {
		order = append(order[1:len(order):len(order)], order[0])
		back := slices.Clone(order)
		slices.Reverse(back)
		out = append(out, order, back)
	}
	return out
}

// extend adds 0, 1, 2, ... members of the order's first role, and for each number
// recurses into the other roles; found is called with every mix that nothing can be
// added to.
func (w *weighing) extend(id model.NodeID, l likeness, order []int, m mix, claims []ledger.Claim, found func(mix)) {
	i := order[0]
	r := w.ask.Roles[w.roles[i]].Request
	before := m[i]
	for {
		if len(order) > 1 {
			w.extend(id, l, order[1:], m, claims, found)
		}
		c, ok := ledger.Claim{}, m[i] < w.most[i] && l.may>>i&1 == 1
		if ok {
			c, ok = w.try(id, r, claims, w.ask.Roles[w.roles[i]].Members[m[i]])
		}
		if !ok {
			break
		}
		claims = append(claims[:len(claims):len(claims)], c)
		m[i]++
	}
	if len(order) == 1 {
		found(m)
	}
	m[i] = before
}

// try says whether a node accepts one more member beside claims, and returns its claim.
func (w *weighing) try(id model.NodeID, r *model.Request, claims []ledger.Claim, h model.HolderID) (ledger.Claim, bool) {
	if w.steps -= stepsPerFit; w.steps < 0 {
		return ledger.Claim{}, false
	}
	v, _ := w.l.ViewWith(id, func(model.HolderID) bool { return false }, claims)
	if !v.Covers(r) {
		return ledger.Claim{}, false
	}
	grant, ok := w.grant(r, v)
	if !ok {
		return ledger.Claim{}, false
	}
	return grant.Claim(h, r, v.Node), true
}

func (m mix) sum() int {
	sum := 0
	for _, n := range m {
		sum += n
	}
	return sum
}

// within says whether a mix is part of another.
func (m mix) within(o mix) bool {
	for i, n := range m {
		if n > o[i] {
			return false
		}
	}
	return true
}
