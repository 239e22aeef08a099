package gang

import (
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// Limits of weighing, all counted: the answer must not depend on the machine.
const (
	// maxSteps is what one gang may cost, about as many additions.
	maxSteps = 1 << 20
	// stepsPerFit and stepsPerNode are what asking a node for devices, and looking at
	// one, count for.
	stepsPerFit, stepsPerNode = 256, 8
	// maxRoles is how many roles with members are weighed.
	maxRoles = 8
	// maxSums is how many sums of members are kept in mind.
	maxSums = 1 << 14
)

// weighing finds places for several roles together, where placing one after the
// other has failed. What a node takes is a few mixes of members; nodes that are alike
// take the same. Which sums of members can be reached with the nodes so far is kept
// node by node, so no choice is ever final, and the cost is that of a table: nodes
// times mixes times sums.
type weighing struct {
	*maker
	// roles are those that have members to place, the one with most of them last; most
	// is how many of each could make up the minimum.
	roles, most []int
	host        model.Host // what all members need together
	extras      model.Extras
	// plain: whole devices or none, any of a model, whoever else is there. Then nodes
	// of one kind with the same devices held are alike.
	plain bool
	steps int
	known map[likeness][]mix
}

// weigh is the last attempt at a gang of several roles. It costs nothing where a
// single role is what fails.
func (m *maker) weigh() (Plan, bool) {
	w := &weighing{maker: m, plain: true, steps: maxSteps, known: map[likeness][]mix{}}
	spare := m.least
	for _, r := range m.ask.Roles {
		spare -= r.Min
	}
	limit := func(role int) int {
		r := &m.ask.Roles[role]
		return min(len(r.Members), r.Min+max(0, spare))
	}
	for _, role := range m.order {
		if limit(role) > 0 {
			w.roles = append(w.roles, role)
		}
	}
	if len(w.roles) < 2 || len(w.roles) > maxRoles {
		return Plan{}, false
	}
	slices.SortStableFunc(w.roles, func(a, b int) int { return limit(a) - limit(b) })
	for _, role := range w.roles {
		r := m.ask.Roles[role].Request
		n := limit(role)
		w.most = append(w.most, n)
		w.host, w.extras = w.host.Plus(r.Host.Times(n)), w.extras.Plus(r.Extras.Times(n))
		w.plain = w.plain && simple(r) && !m.l.KeptApart(r.Labels)
	}
	scopes := slices.Collect(m.scopes())
	if len(scopes) == 0 {
		return Plan{}, false
	}
	// Of scopes inside each other the widest says whether to look at the others.
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

// simple says whether all that counts for a request is how many devices are free of
// the models it may use.
func simple(r *model.Request) bool {
	return r.Kind() == model.Whole && r.Require.Bond == (model.Bond{}) && len(r.UseUUIDs)+len(r.AvoidUUIDs)+len(r.UseIndexes)+len(r.Affinity) == 0
}

// nested says whether the last scope holds all others.
func (m *maker) nested() bool {
	return m.ask.Require.Name == "" || m.ask.Within != nil || m.beside() != nil
}

// use is a node and the members that go there.
type use struct {
	node model.NodeID
	mix  mix
}

// ways finds places for the minimum in a scope; nil when there are none, or the
// limits do not allow to find them.
func (w *weighing) ways(s scope) []use {
	if !w.alone(s) {
		return nil
	}
	nodes, mixes := w.nodes(s)
	if !w.room(mixes) {
		return nil
	}
	return w.table(nodes, mixes)
}

// alone says whether each role would have its minimum if it were alone: a quick look
// that answers for most gangs that have no place.
func (w *weighing) alone(s scope) bool {
	for _, role := range w.roles {
		r := &w.ask.Roles[role]
		if !simple(r.Request) {
			continue // who comes first may choose badly
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

// nodes lists the nodes of a scope that take anybody, with what they take: those
// where the gang is first, then the ones that take most. Of nodes that are alike no
// more are listed than there are members.
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
	near := func(u use) int {
		if slices.Contains(beside, u.node) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b use) int {
		if c := near(a) - near(b); c != 0 {
			return c
		}
		return b.mix.sum() - a.mix.sum()
	})
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

// room says whether nodes might take enough, if each took the most of everything.
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

// carryOut places members as found, and who else of an elastic gang has a place
// beside them.
func (w *weighing) carryOut(s scope, ways []use) (Plan, bool) {
	tx := w.l.Begin()
	f := newFilling(w.maker, s)
	for _, u := range ways {
		if !slices.ContainsFunc(w.orders(u.node), func(order []int) bool { return w.putAll(f, u, order) }) {
			tx.Rollback() // somebody's rules are about more than one node
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

// putAll gives the members of a mix their devices, role by role, or nobody.
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
