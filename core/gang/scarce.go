package gang

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/topology"
)

// maxScarce is how many nodes with a model are looked at one by one. With more of
// them it is not scarce, and the domains' own sums lead to it soon enough.
const maxScarce = 4096

// usable are the devices of a kind of nodes that a role may use, by model and memory.
type usable struct {
	role int
	kind *ledger.Kind
}

// choosy says whether a request is about some models only.
func choosy(r *model.Request) bool {
	return len(r.UseModels)+len(r.AvoidModels)+len(r.ProfileModels) > 0 || r.MinMemory > 0
}

// allowed is how many free devices of a node a role may use.
func (m *maker) allowed(role int, v *ledger.View) int {
	r := m.ask.Roles[role].Request
	room := v.Room(r.Vendor)
	if room == 0 || !choosy(r) {
		return room
	}
	key := usable{role, v.Kind}
	mask, known := m.usable[key]
	if !known {
		for slot := range v.Devices(r.Vendor).Slots() {
			if place.Allows(r, &v.Node.Devices[slot]) {
				mask = mask.With(slot)
			}
		}
		if m.usable == nil {
			m.usable = map[usable]model.Mask{}
		}
		m.usable[key] = mask
	}
	return min(room, v.Sales(v.Free(r.Vendor)&mask))
}

// enough yields, by depth, the domains that have as many free devices as the gang
// needs, the one with least to spare first. The ledger's sums are of all models of a
// vendor; where the gang wants one that not all have, its nodes are added up here.
func (m *maker) enough() func(depth int) iter.Seq[topology.Domain] {
	role, need := m.picky()
	if role >= 0 {
		if sums, ok := m.sums(role); ok {
			return func(depth int) iter.Seq[topology.Domain] {
				var list []topology.Domain
				for d, n := range sums { // sorted below
					if d.Depth == depth && n >= need {
						list = append(list, d)
					}
				}
				slices.SortFunc(list, func(a, b topology.Domain) int {
					return cmp.Or(cmp.Compare(sums[a], sums[b]), cmp.Compare(a.Path, b.Path))
				})
				return slices.Values(list)
			}
		}
	}
	resource, least := m.need()
	return func(depth int) iter.Seq[topology.Domain] { return m.l.Domains().Enough(depth, resource, least) }
}

// picky is the role that needs most devices of those that not every node of their
// vendor has, and how many it needs; -1 when there is none.
func (m *maker) picky() (role int, need int64) {
	role = -1
	for i, r := range m.ask.Roles {
		n := int64(m.wanted(i)) * int64(r.Request.Count())
		if n <= need || !choosy(r.Request) || r.Request.Kind() != model.Whole {
			continue
		}
		for v := range m.l.Kinds() { // any
			if has := v.Room(r.Request.Vendor); has > 0 && m.allowed(i, &v) < has {
				role, need = i, n
				break
			}
		}
	}
	return role, need
}

// sums adds up the free devices that a role may use in each domain; false when too
// many nodes have them.
func (m *maker) sums(role int) (map[topology.Domain]int64, bool) {
	out := map[topology.Domain]int64{}
	domains := m.l.Domains()
	nodes := 0
	for b := range m.l.Buckets() { // sums do not depend on the order
		v, _ := b.View(nil)
		n := int64(m.allowed(role, &v))
		if n == 0 {
			continue
		}
		if nodes += b.Len(); nodes > maxScarce {
			return nil, false
		}
		for id := range b.Nodes() {
			for depth := range domains.Depths() {
				if d, ok := domains.Of(id, depth); ok {
					out[d] += n
				}
			}
		}
	}
	return out, true
}
