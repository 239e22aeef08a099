package place

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
)

// Candidate is a node that can take a request, and how good it is.
type Candidate struct {
	Node  model.NodeID
	Grant Grant
	Card  score.Card
	Total int
}

// Result is the answer of a search: candidates, or reasons.
type Result struct {
	groups []group
	// Refused counts the nodes that cannot take the request, by reason.
	Refused explain.Tally
}

// group is a run of interchangeable candidates.
type group struct {
	Candidate
	// used breaks ties between groups: fuller nodes first, so that empty ones
	// stay whole; negative for a request that spreads.
	used int
	// luxury breaks further ties: who does not mind gets the humbler hardware.
	luxury int
	// members are the group's nodes; nil for the single node in Candidate.
	members *ledger.Bucket
	skip    []model.NodeID
}

// Search ranks every node for a request: higher total first, then the fuller
// node, then the humbler devices, then the smaller ID. It evaluates each bucket of interchangeable nodes
// once, so its cost does not grow with the number of nodes, unless nodes of one
// bucket differ: in who is on them, for a request that minds company, or in what was
// measured on them. Then it evaluates each node. The result refers to the ledger and
// must be used before the ledger changes.
func Search(l *ledger.Ledger, r *model.Request, w score.Weights) Result {
	var res Result
	if apart(l, r) || l.Measured() {
		for v := range everyNode(l) {
			res.judge(r, w, v, 1, nil, nil)
		}
		res.sort()
		return res
	}
	// Nodes that own a device named by UUID differ from their bucket: they are
	// judged alone. With UseUUIDs no other node can have them.
	var named []model.NodeID
	for _, uuids := range [][]string{r.UseUUIDs, r.AvoidUUIDs} {
		for _, uuid := range uuids {
			named = append(named, l.Owners(uuid)...)
		}
	}
	slices.Sort(named)
	named = slices.Compact(named)
	for _, id := range named {
		if v, ok := l.View(id); ok {
			res.judge(r, w, v, 1, nil, nil)
		}
	}
	for b := range l.Buckets() {
		skip := b.Pick(named)
		if v, ok := b.View(skip); ok {
			res.judge(r, w, v, b.Len()-len(skip), b, skip)
		}
	}
	res.sort()
	return res
}

func (res *Result) sort() {
	slices.SortFunc(res.groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(b.used, a.used), cmp.Compare(a.luxury, b.luxury), cmp.Compare(a.Node, b.Node))
	})
}

// everyNode yields the view of each node, in no particular order.
func everyNode(l *ledger.Ledger) iter.Seq[ledger.View] {
	return func(yield func(ledger.View) bool) {
		for b := range l.Buckets() {
			for id := range b.Nodes() {
				if v, ok := l.View(id); ok && !yield(v) {
					return
				}
			}
		}
	}
}

// Fits says whether any node can take a request, without ranking those that can.
func Fits(l *ledger.Ledger, r *model.Request) bool {
	if len(r.UseUUIDs) > 0 || len(r.AvoidUUIDs) > 0 {
		res := Search(l, r, score.DefaultWeights())
		return res.Fits()
	}
	if apart(l, r) {
		for v := range everyNode(l) {
			if _, refusal := Fit(r, v); refusal == nil {
				return true
			}
		}
		return false
	}
	for b := range l.Buckets() {
		if v, ok := b.View(nil); ok {
			if _, refusal := Fit(r, v); refusal == nil {
				return true
			}
		}
	}
	return false
}

// judge evaluates one view that stands for n nodes.
func (res *Result) judge(r *model.Request, w score.Weights, v ledger.View, n int, b *ledger.Bucket, skip []model.NodeID) {
	grant, refusal := Fit(r, v)
	if refusal != nil {
		res.Refused.Add(*refusal, n)
		return
	}
	card := score.Rate(r, v, grant.Set)
	used, luxury := v.Held.Count(), 0
	for slot := range grant.Set.Slots() {
		luxury = max(luxury, score.Luxury(&v.Node.Devices[slot]))
	}
	if r.NodePlacement == model.Spread {
		used = -used
	}
	res.groups = append(res.groups, group{
		Candidate: Candidate{Node: v.Node.ID, Grant: grant, Card: card, Total: w.Total(card)},
		used:      used,
		luxury:    luxury,
		members:   b,
		skip:      skip,
	})
}

// Fits says whether any node can take the request.
func (res *Result) Fits() bool { return len(res.groups) > 0 }

// Candidates yields the nodes that can take the request, best first.
func (res *Result) Candidates() iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		for _, g := range res.groups {
			if g.members == nil {
				if !yield(g.Candidate) {
					return
				}
				continue
			}
			for id := range g.members.Nodes() {
				if slices.Contains(g.skip, id) {
					continue
				}
				c := g.Candidate
				c.Node = id
				if !yield(c) {
					return
				}
			}
		}
	}
}
