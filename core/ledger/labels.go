package ledger

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// labels records on which nodes the holders with a label are, and the holders'
// anti-affinity rules. It answers affinity rules without visiting every node.
type labels struct {
	// at counts a label's holders on each node.
	at map[model.Label]map[*node]int
	// anti are the anti-affinity rules of holders, by their text and scope, each with
	// the number of its holders.
	anti map[string]*antiRule
}

type antiRule struct {
	rule    model.AffinityRule
	holders int
}

func newLabels() labels {
	return labels{at: map[model.Label]map[*node]int{}, anti: map[string]*antiRule{}}
}

// replace counts a claim instead of another on a node; either may be nil. A claim
// that is confirmed has the labels it was assumed with, which costs nothing.
func (x *labels) replace(n *node, old, now *Claim) {
	if old != nil && now != nil && slices.Equal(old.Labels, now.Labels) && slices.EqualFunc(old.Apart, now.Apart, model.AffinityRule.Equal) {
		return
	}
	if old != nil {
		x.remove(n, old)
	}
	if now == nil {
		return
	}
	for _, label := range now.Labels {
		if x.at[label] == nil {
			x.at[label] = map[*node]int{}
		}
		x.at[label][n]++
	}
	for _, rule := range now.Apart {
		key := ruleKey(rule)
		if x.anti[key] == nil {
			x.anti[key] = &antiRule{rule: rule}
		}
		x.anti[key].holders++
	}
}

func (x *labels) remove(n *node, c *Claim) {
	for _, label := range c.Labels {
		nodes := x.at[label]
		if nodes[n]--; nodes[n] == 0 {
			delete(nodes, n)
		}
		if len(nodes) == 0 {
			delete(x.at, label)
		}
	}
	for _, rule := range c.Apart {
		key := ruleKey(rule)
		if x.anti[key].holders--; x.anti[key].holders == 0 {
			delete(x.anti, key)
		}
	}
}

// audit counts holders' labels and rules again.
func (x *labels) audit(nodes iter.Seq[*node]) error {
	again := newLabels()
	for n := range nodes {
		for i := range n.claims {
			again.replace(n, nil, &n.claims[i])
		}
	}
	sameRule := func(a, b *antiRule) bool { return a.holders == b.holders && a.rule.Equal(b.rule) }
	switch {
	case !maps.EqualFunc(again.at, x.at, maps.Equal):
		return fmt.Errorf("labels: %v, want %v", x.at, again.at)
	case !maps.EqualFunc(again.anti, x.anti, sameRule):
		return fmt.Errorf("labels: %d anti-affinity rules, want %d", len(x.anti), len(again.anti))
	}
	return nil
}

// anywhere says whether a holder that a rule matches is on any existing node. It visits
// only the nodes of the rarest label.
func (x *labels) anywhere(rule model.AffinityRule) bool {
	var rarest map[*node]int
	for i, label := range rule.Match {
		nodes := x.at[label]
		if i == 0 || len(nodes) < len(rarest) {
			rarest = nodes
		}
	}
	for n := range rarest {
		if n.inv != nil && slices.ContainsFunc(n.claims, func(c Claim) bool { return rule.Matches(c.Labels) }) {
			return true
		}
	}
	return false
}

// ruleKey is equal exactly for equal rules.
func ruleKey(r model.AffinityRule) string {
	key := r.String()
	if len(r.Match) > 0 {
		key += "\x00" + r.Match[0].Scope
	}
	return key
}

// KeptApart says whether any holder's anti-affinity rule matches these labels: then
// nodes of one bucket may answer differently. labels must be sorted.
func (l *Ledger) KeptApart(labels []model.Label) bool {
	for _, a := range l.labels.anti {
		if a.rule.Matches(labels) {
			return true
		}
	}
	return false
}

// Matching is where the holders are that a rule matches: the devices of the node they
// hold (a part of), whether any is on the node at all (it may have no device left), and
// whether any is on any node of the ledger. The last answer is about the ledger's
// present state even if the view is hypothetical.
func (v View) Matching(rule model.AffinityRule) (devices model.Mask, here, anywhere bool) {
	for i := range v.claims {
		if rule.Matches(v.claims[i].Labels) {
			devices |= v.byClaim[i]
			here = true
		}
	}
	return devices, here, here || v.labels.anywhere(rule)
}

// KeptFrom are the devices that anti-affinity rules of holders on the node forbid to a
// holder with these labels, and the first such rule. labels must be sorted.
func (v View) KeptFrom(labels []model.Label) (devices model.Mask, by model.AffinityRule) {
	for i := range v.claims {
		for _, rule := range v.claims[i].Apart {
			if !rule.Matches(labels) {
				continue
			}
			if by.Kind == 0 {
				by = rule
			}
			if rule.Kind == model.DifferentNode {
				devices = model.FullMask(len(v.Node.Devices))
			}
			devices |= v.byClaim[i]
		}
	}
	return devices, by
}

// Near says whether a holder with a label is in the view's domain at a depth (on its
// node, for model.NodeDepth), and whether there is one anywhere.
func (v View) Near(label model.Label, depth int) (near, anywhere bool) {
	if v.labels == nil {
		return false, false
	}
	for n := range v.labels.at[label] { // any will do
		if n.inv == nil {
			continue
		}
		anywhere = true
		if sameDomain(n.inv, v.Node, depth) {
			return true, true
		}
	}
	return false, anywhere
}

func sameDomain(a, b *model.Node, depth int) bool {
	if depth == model.NodeDepth {
		return a.ID == b.ID
	}
	return depth < len(a.Domains) && depth < len(b.Domains) && a.Domains[depth] != "" && slices.Equal(a.Domains[:depth+1], b.Domains[:depth+1])
}

// Around lists the nodes, sorted, of the domains at a depth that have a holder with a
// label; at most limit of them.
func (l *Ledger) Around(label model.Label, depth, limit int) []model.NodeID {
	var out []model.NodeID
	for n := range l.labels.at[label] {
		if n.inv == nil {
			continue
		}
		if depth == model.NodeDepth {
			out = append(out, n.id)
		} else if d, ok := l.domains.Of(n.id, depth); ok {
			out = append(out, l.domains.Nodes(d)...)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), limit)]
}
