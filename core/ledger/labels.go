package ledger

import (
	"slices"

	"github.com/tangram-dev/tangram/core/model"
)

// labels is where holders with a label are, and which rules of holders keep others
// away. It answers rules about company without a look at every node.
type labels struct {
	// at counts a label's holders on each node.
	at map[model.Label]map[*node]int
	// apart are the rules by which holders keep others away, by their text and
	// scope, each with the number of its holders.
	apart map[string]*apartRule
}

type apartRule struct {
	rule    model.AffinityRule
	holders int
}

func newLabels() labels {
	return labels{at: map[model.Label]map[*node]int{}, apart: map[string]*apartRule{}}
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
		if x.apart[key] == nil {
			x.apart[key] = &apartRule{rule: rule}
		}
		x.apart[key].holders++
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
		if x.apart[key].holders--; x.apart[key].holders == 0 {
			delete(x.apart, key)
		}
	}
}

// anywhere says whether a holder that a rule is about is on any node that is there.
// It looks at the nodes of the rarest label only.
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

// ruleKey tells rules apart.
func ruleKey(r model.AffinityRule) string {
	key := r.String()
	if len(r.Match) > 0 {
		key += "\x00" + r.Match[0].Scope
	}
	return key
}

// KeptApart says whether any holder's rule keeps holders with these labels away: then
// nodes of one bucket may answer them differently. labels must be sorted.
func (l *Ledger) KeptApart(labels []model.Label) bool {
	for _, a := range l.labels.apart {
		if a.rule.Matches(labels) {
			return true
		}
	}
	return false
}

// Company is where the holders are that a rule is about: the devices of the node
// they hold (a part of), whether any is on the node at all (one may have no device
// left), and on any node of the ledger. The last one is asked of the ledger as it is,
// also when the view is a hypothesis.
func (v View) Company(rule model.AffinityRule) (devices model.Mask, here, anywhere bool) {
	for i := range v.claims {
		if rule.Matches(v.claims[i].Labels) {
			devices |= v.of[i]
			here = true
		}
	}
	return devices, here, here || v.labels.anywhere(rule)
}

// KeptFrom are the devices that rules of their holders, or of others on the node,
// keep a holder with these labels from, and the first such rule. labels must be
// sorted.
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
			devices |= v.of[i]
		}
	}
	return devices, by
}
