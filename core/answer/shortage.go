package answer

import (
	"cmp"
	"slices"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// An autoscaler adds nodes for pods that it finds no place for, pod by pod: it does not
// know that the members of a gang must share a domain. Where they must, it has to be told
// in which domain nodes are missing.

// Shortage is a domain in which a gang would start if it had more nodes.
type Shortage struct {
	Domain topology.Domain
	// Values are the domain's own and those of the levels above, outermost first; "" where
	// its nodes have none.
	Values []string
	// Placed is how many of the members that are needed have room there now.
	Placed int
}

// NewTo says whether the domain's own value is not among known ones.
func (s *Shortage) NewTo(known []string) bool {
	return len(s.Values) > 0 && !slices.Contains(known, s.Values[len(s.Values)-1])
}

// maxShortages bounds how many domains are looked at: each costs a plan.
const maxShortages = 8

// Of says of a gang that waits for capacity and has to share a domain which members
// need nodes, and in which domains they would start then, the one that lacks fewest first.
// fixed: members run, and only their domain will do. No members: the gang need not share a
// domain, or has room in one. Of many domains those with the most free devices are looked at,
// and those that also names, if it is not nil.
func (a Shortages) Of(id cluster.ID, also func(*Shortage) bool) (members []model.HolderID, where []Shortage, fixed bool) {
	k := a.cluster.Gang(id)
	if k == nil || k.Require.Name == "" || k.Invalid != "" || !k.Complete() || k.Placed() == k.Exists() || k.Placed() == 0 && k.Min == 1 {
		return nil, nil, false
	}
	ask := k.Demand()
	if k.Missing() == 0 {
		ask = k.Ask(1) // it runs, and can use more
	}
	domains, fixed := a.roomiest(k, ask)
	for i, d := range domains {
		s := Shortage{Domain: d, Values: a.values(d)}
		if i >= maxShortages && (also == nil || !also(&s)) {
			continue
		}
		if len(where) == 2*maxShortages {
			break
		}
		if s.Placed = a.placedIn(k, ask, d); s.Placed >= max(1, ask.Min) {
			return nil, nil, false
		}
		where = append(where, s)
	}
	slices.SortStableFunc(where, func(a, b Shortage) int { return cmp.Compare(b.Placed, a.Placed) })
	for _, r := range ask.Roles {
		members = append(members, r.Members...)
	}
	return members, where, fixed
}

// roomiest are the domains in which a gang could start, those with the most free devices
// first; fixed: that of its running members.
func (a Shortages) roomiest(k *cluster.Tracked, ask *gang.Ask) (out []topology.Domain, fixed bool) {
	depth := k.Require.Depth
	if depth == model.NodeDepth {
		return nil, false
	}
	domains := a.cluster.Ledger().Domains()
	for _, node := range ask.Beside {
		if d, ok := domains.Of(node, depth); ok {
			return []topology.Domain{d}, true
		}
	}
	vendor, most := model.Vendor(""), -1
	for _, r := range ask.Roles {
		if n := r.Request.Count() * len(r.Members); n > most {
			vendor, most = r.Request.Vendor, n
		}
	}
	resource := max(0, vendor.Index())
	out = slices.Clone(domains.At(depth)) // sorted by path
	slices.SortStableFunc(out, func(a, b topology.Domain) int {
		return cmp.Compare(domains.Free(b, resource), domains.Free(a, resource))
	})
	return out, false
}

// values are the values of the levels down to a domain.
func (a Shortages) values(d topology.Domain) []string {
	for _, node := range a.cluster.Ledger().Domains().Nodes(d) {
		if v, there := a.cluster.Ledger().View(node); there && len(v.Node.Domains) > d.Depth {
			return slices.Clone(v.Node.Domains[:d.Depth+1])
		}
	}
	return nil
}

// placedIn is how many members have room in a domain.
func (a Shortages) placedIn(k *cluster.Tracked, ask *gang.Ask, d topology.Domain) int {
	t := a.cluster.Begin()
	defer t.Rollback()
	in := *ask
	// All of these nodes share the domain. Without the requirement they are filled as far as
	// possible, even where counting shows that not all members have room.
	in.Within, in.Require, in.Terse = slices.Clone(a.cluster.Ledger().Domains().Nodes(d)), model.Level{}, true
	a.cluster.Constrain(k, &in, nil)
	plan, failure := t.Plan(&in)
	if failure != nil {
		return max(0, failure.Placed)
	}
	return len(plan.Placements)
}

// Domains are the values of a level, of all domains that have nodes, sorted and each once.
func (a Shortages) Domains(level model.Level) []string {
	var out []string
	for _, d := range a.cluster.Ledger().Domains().At(level.Depth) {
		if values := a.values(d); len(values) > 0 {
			out = append(out, values[len(values)-1])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
