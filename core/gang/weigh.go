package gang

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// Limits of weighing, in counted steps: the answer must not depend on the machine's
// speed.
const (
	// maxSteps bounds the cost of one gang; a step is about one addition.
	maxSteps = 1 << 20
	// stepsPerFit and stepsPerNode are the cost, in steps, of one Fit and of visiting a
	// node.
	stepsPerFit, stepsPerNode = 256, 8
	// maxRoles is how many roles with members are weighed at most.
	maxRoles = 8
	// maxSums is how many sums of members a table holds at most.
	maxSums = 1 << 14
)

// weighing places several roles together, after placing them one after the other has
// failed. A node accepts a few mixes of members; equal nodes accept the same. A table
// keeps, node by node, which sums of members can be reached, so that no early choice is
// final. Cost: nodes times mixes times sums.
type weighing struct {
	*maker
	// roles are those with members to place, the one with most members last; most is how
	// many of each can count toward the minimum.
	roles, most []int
	host        model.Host // what all members need together
	extras      model.Extras
	// plain: whole devices or none, no affinity rules. Then nodes of one kind with the
	// same devices held are equal.
	plain bool
	steps int
	known map[likeness][]mix
}

// weigh is the last attempt to place a gang of several roles. It returns early when a
// single role alone does not fit.
func (m *maker) weigh() (Plan, bool) {
	w := m.newWeighing()
	if w == nil {
		return Plan{}, false
	}
	scopes := slices.Collect(m.scopes())
	if len(scopes) == 0 {
		return Plan{}, false
	}
	// If the scopes are nested, the widest one is a necessary condition for the others.
	if m.nested() {
		if widest := scopes[len(scopes)-1]; w.ways(widest) == nil {
			return Plan{}, false
		}
	}
	for _, s := range scopes {
		if ways := w.ways(s); ways != nil {
			if plan, ok := w.carryOut(s, ways); ok {
				return plan, true
			}
		}
	}
	return Plan{}, false
}

// newWeighing is nil when there are too few roles, or too many.
func (m *maker) newWeighing() *weighing {
	w := &weighing{maker: m, plain: true, steps: maxSteps, known: map[likeness][]mix{}}
	optional := m.least
	for _, r := range m.ask.Roles {
		optional -= r.Min
	}
	limit := func(role int) int {
		r := &m.ask.Roles[role]
		return min(len(r.Members), r.Min+max(0, optional))
	}
	for _, role := range m.order {
		if limit(role) > 0 {
			w.roles = append(w.roles, role)
		}
	}
	if len(w.roles) < 2 || len(w.roles) > maxRoles {
		return nil
	}
	slices.SortStableFunc(w.roles, func(a, b int) int { return limit(a) - limit(b) })
	for _, role := range w.roles {
		r := m.ask.Roles[role].Request
		n := limit(role)
		w.most = append(w.most, n)
		w.host, w.extras = w.host.Plus(r.Host.Times(n)), w.extras.Plus(r.Extras.Times(n))
		w.plain = w.plain && simple(r) && !m.l.KeptApart(r.Labels)
	}
	return w
}

// simple says whether a request depends on nothing but the number of free devices of
// the models it may use.
func simple(r *model.Request) bool {
	return r.Kind() == model.Whole && r.Require.Bond == (model.Bond{}) && len(r.UseUUIDs)+len(r.AvoidUUIDs)+len(r.UseIndexes)+len(r.Affinity) == 0
}

// nested says whether the last scope contains all others.
func (m *maker) nested() bool {
	return m.ask.Require.Name == "" || m.ask.Within == nil && m.beside() != nil
}

// use is a node and the members that go there.
type use struct {
	node model.NodeID
	mix  mix
}

// ways finds places for the minimum in a scope; nil when there are none, or none was
// found within the limits.
func (w *weighing) ways(s scope) []use {
	if !w.alone(s) {
		return nil
	}
	return w.assign(s)
}

// assign weighs the members against each other.
func (w *weighing) assign(s scope) []use {
	nodes, mixes := w.nodes(s)
	if !w.room(mixes) {
		return nil
	}
	return w.table(nodes, mixes)
}

// alone says whether each role would reach its minimum without the others: a cheap
// necessary condition that rejects most gangs that do not fit.
func (w *weighing) alone(s scope) bool {
	for _, role := range w.roles {
		r := &w.ask.Roles[role]
		if !simple(r.Request) {
			continue // its own order of members matters, so the answer proves nothing
		}
		tx := w.l.Begin()
		f := newFilling(w.maker, s)
		got := f.role(role, r.Members[:r.Min])
		tx.Rollback()
		if got < r.Min {
			return false
		}
	}
	return true
}

// nodes lists the nodes of a scope that accept a member, with their mixes: nodes the
// gang already uses first, then those that accept most. Of equal nodes no more are
// listed than there are members.
func (w *weighing) nodes(s scope) ([]model.NodeID, [][]mix) {
	members := mix(w.most).sum()
	count := map[likeness]int{}
	beside := w.beside()
	var list []use // with the largest mix
	taken := map[model.NodeID][]mix{}
	for _, id := range w.roomy(s) {
		v, _ := w.l.View(id)
		l := w.like(id, &v)
		if count[l]++; count[l] > members && !slices.Contains(beside, id) {
			continue
		}
		mixes, known := w.known[l]
		if !known {
			mixes = w.mixes(id, l)
			w.known[l] = mixes
		}
		if len(mixes) > 0 {
			list = append(list, use{id, mixes[0]})
			taken[id] = mixes
		}
	}
	far := func(u use) int {
		if slices.Contains(beside, u.node) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b use) int { return cmp.Or(far(a)-far(b), b.mix.sum()-a.mix.sum()) })
	out, mixes := make([]model.NodeID, len(list)), make([][]mix, len(list))
	for i, u := range list {
		out[i], mixes[i] = u.node, taken[u.node]
	}
	return out, mixes
}

// roomy lists the nodes of a scope that have room for a member of some role, sorted.
func (w *weighing) roomy(s scope) []model.NodeID {
	all := w.l.Nodes()
	if s.nodes != nil {
		all = slices.Values(s.nodes)
	}
	f := newFilling(w.maker, s)
	var out []model.NodeID
	for id := range all {
		w.steps -= stepsPerNode
		if slices.ContainsFunc(w.roles, func(role int) bool { return f.roomy(w.ask.Roles[role].Request, id) }) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// room says whether the nodes could accept enough, if each accepted its maximum of
// every role at once.
func (w *weighing) room(mixes [][]mix) bool {
	each, all := make(mix, len(w.roles)), 0
	for _, ms := range mixes {
		most := make(mix, len(w.roles))
		for _, m := range ms {
			for i, n := range m {
				most[i] = max(most[i], n)
			}
		}
		for i, n := range most {
			each[i] += n
		}
		all += ms[0].sum()
	}
	for i, role := range w.roles {
		if each[i] < w.ask.Roles[role].Min {
			return false
		}
	}
	return all >= w.least
}

// carryOut places the members as found, then the optional members of an elastic gang.
func (w *weighing) carryOut(s scope, ways []use) (Plan, bool) {
	tx := w.l.Begin()
	f := newFilling(w.maker, s)
	for _, u := range ways {
		if !slices.ContainsFunc(w.orders(u.node), func(order []int) bool { return w.putAll(f, u, order) }) {
			tx.Rollback() // a rule depends on members on other nodes
			return Plan{}, false
		}
	}
	for _, role := range w.order {
		f.upTo(role, len(w.ask.Roles[role].Members))
	}
	tx.Keep()
	plan := f.plan()
	plan.weighed = true
	return plan, true
}

// putAll gives the members of a mix their devices, role by role, or places none of
// them.
func (w *weighing) putAll(f *filling, u use, order []int) bool {
	tx, before := w.l.Begin(), *f
	before.taken = slices.Clone(f.taken)
	for _, i := range order {
		role := w.roles[i]
		for range u.mix[i] {
			if !f.put(role, w.ask.Roles[role].Members[f.taken[role]], u.node) {
				tx.Rollback()
				*f = before
				return false
			}
			f.taken[role]++
		}
	}
	tx.Keep()
	return true
}
