package place

import (
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// nearness is how close a request's devices must be on one node: what the request
// requires, and what the node's kubelet requires. Kubelet's rule is checked here
// because kubelet fails a pod that violates it instead of returning it to the
// scheduler.
type nearness struct {
	r *model.Request
	v ledger.View
	// bond is what every two devices must share.
	bond model.Bond
	// numa is on how many NUMA nodes all devices may be together; 0 for any number.
	numa int
	// each is the same limit for every container by itself; nil without such a limit.
	each []int
	// never: kubelet would refuse the pod even on an empty node.
	never bool
}

// lacks says whether a node is in no domain of a level.
func lacks(n *model.Node, l model.Level) bool {
	return l.Name != "" && l.Depth != model.NodeDepth && (l.Depth >= len(n.Domains) || n.Domains[l.Depth] == "")
}

func nearnessOf(r *model.Request, v ledger.View) nearness {
	n := nearness{r: r, v: v, bond: r.Require.Bond}
	if v.Node.NUMA == model.AnyNUMA {
		return n
	}
	// Kubelet counts all devices it has, sick ones too. When none of them says where
	// it is, there is nothing to align.
	devices := v.Devices(r.Vendor)
	if len(v.Kind.Links.NUMANodes(devices)) == 0 {
		return n
	}
	limit := func(k int) int {
		fewest := v.Kind.Links.FewestNUMA(devices, k)
		if fewest == 0 || v.Node.NUMA == model.OneNUMA && fewest > 1 {
			n.never = true
			return 1
		}
		return fewest
	}
	if !v.Node.NUMAPerContainer {
		n.numa = limit(r.Distinct())
		return n
	}
	asking, most := 0, 0
	each := make([]int, len(r.Containers))
	for i, c := range r.Containers {
		if c.Count > 0 {
			asking, most = asking+1, max(most, c.Count)
			each[i] = limit(c.Count)
		}
	}
	switch {
	case most <= 1: // a device alone is aligned
		n.never = false
	case asking == 1 || r.Kind() != model.Whole:
		// Parts of several containers are laid as if they were one: stricter than
		// kubelet, and never wrong.
		n.numa = limit(r.Distinct())
	default:
		n.each = each
	}
	return n
}

// asks says whether there is anything to satisfy.
func (n *nearness) asks() bool {
	return n.bond != (model.Bond{}) || n.numa > 0 || n.each != nil || n.never
}

// choose returns the best k of the devices that are near enough, and if possible as
// near as would be preferred; 0 when there are none.
func (n *nearness) choose(devices model.Mask, k int, prefer model.Bond) model.Mask {
	if prefer != (model.Bond{}) {
		if set := n.within(devices, k, n.bond.And(prefer)); set != 0 {
			return set
		}
	}
	return n.within(devices, k, n.bond)
}

func (n *nearness) within(devices model.Mask, k int, bond model.Bond) model.Mask {
	links := n.v.Kind.Links
	switch {
	case n.never:
		return 0
	case n.each != nil:
		return links.Where(devices, k, bond, n.aligned)
	case n.numa > 0:
		return links.WithinOneOf(links.NUMAUnions(devices, n.numa), devices, k, bond)
	}
	return links.Within(devices, k, bond)
}

// aligned says whether each container's devices are on as few NUMA nodes as kubelet
// will demand. Kubelet looks at the containers one by one, in this order.
func (n *nearness) aligned(set model.Mask) bool {
	for i, own := range n.r.Share(set) {
		if own != 0 && n.v.Kind.Links.TouchesNUMA(own) > n.each[i] {
			return false
		}
	}
	return true
}

// areas are the parts of the devices inside which anything is near enough, the
// larger first.
func (n *nearness) areas(devices model.Mask, bond model.Bond) []model.Mask {
	links := n.v.Kind.Links
	parts := []model.Mask{devices}
	if limit := max(n.numa, slices.Max(append(n.each, 0))); limit > 0 {
		parts = links.NUMAUnions(devices, limit)
	}
	var out []model.Mask
	for _, p := range parts {
		out = append(out, links.Groups(p, bond)...)
	}
	return out
}

// largest is the largest of the areas, capped below need: where each container has an
// area of its own, size is not what was missing.
func (n *nearness) largest(devices model.Mask, need int) model.Mask {
	var best model.Mask
	for _, a := range n.areas(devices, n.bond) {
		if a.Count() > best.Count() {
			best = a
		}
	}
	return best.Lowest(need - 1)
}

// fitParts lays shares or slices on devices that are near enough, and if possible as
// near as would be preferred.
func (n *nearness) fitParts(allowed model.Mask, worth Worth) (Grant, *explain.Refusal) {
	g, refusal := fitParts(n.r, n.v, allowed, worth)
	if refusal != nil {
		return g, refusal
	}
	bonds := []model.Bond{n.bond}
	if n.r.Prefer.Bond != (model.Bond{}) {
		bonds = []model.Bond{n.bond.And(n.r.Prefer.Bond), n.bond}
	}
	var best *explain.Refusal
	for _, bond := range bonds {
		if n.holds(g.Set, bond) {
			return g, nil
		}
		for _, area := range n.areas(allowed, bond) {
			inside, refusal := fitParts(n.r, n.v, area, worth)
			if refusal == nil {
				return inside, nil
			}
			if best == nil || refusal.Best > best.Best {
				best = refusal
			}
		}
	}
	if best == nil { // no area at all
		best = &explain.Refusal{Need: int64(n.r.Distinct()), Devices: n.v.Devices(n.r.Vendor).Count()}
	}
	best.Code, best.Detail = explain.FreeApart, n.String()
	return Grant{}, best
}

// holds says whether a set is near enough.
func (n *nearness) holds(set model.Mask, bond model.Bond) bool {
	links := n.v.Kind.Links
	return links.Bonded(set, bond) && (n.numa == 0 || links.TouchesNUMA(set) <= n.numa)
}

// String says what is asked, to be read after "GPUs".
func (n *nearness) String() string {
	var out []string
	if n.bond.Link != model.SYS {
		out = append(out, "joined by "+n.bond.Link.String())
	}
	if n.bond.NUMA {
		out = append(out, "on one NUMA node")
	}
	if n.numa > 0 || n.each != nil || n.never {
		where := "on one NUMA node"
		if n.v.Node.NUMA == model.FewestNUMA {
			where = "on the fewest NUMA nodes"
		}
		out = append(out, where+" as kubelet's policy "+n.v.Node.NUMA.String()+" demands")
	}
	return strings.Join(out, " and ")
}
