package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/inventory"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// Checker compares an engine's ledger with one built anew from what the API says now
// (records are the truth, memory is a cache), and checks the engine's own accounts: places,
// charges of queues, released pods that are lost. Which holder was seen first is known to
// memory only, and is taken over. Promises not yet written are not compared; events still
// under way show as differences, so ask a quiet cluster. Not safe for concurrent use.
type Checker struct {
	engine *Engine
	last   int // the node that Some looked at last
}

// Checker returns one that has looked at no node.
func (e *Engine) Checker() *Checker { return &Checker{engine: e} }

// All compares all nodes. It returns how many holders agree, or an error that shows the first
// difference.
func (c *Checker) All() (holders int, err error) {
	rebuilt := ledger.New()
	for _, d := range c.engine.inventory.All() {
		if err := rebuilt.SetNode(d.Node); err != nil {
			return 0, err
		}
	}
	c.fill(func(string) *ledger.Ledger { return rebuilt })
	_, holders = rebuilt.Size()
	c.engine.do("check", func(d *driver, _ time.Time) {
		if err = d.core.Nodes.Audit(); err == nil {
			err = firstDifference(d.core.Nodes.Confirmed(), rebuilt.String())
		}
		if err == nil {
			err = d.core.Verify()
		}
	})
	if err != nil {
		metrics.CheckFailed("full")
	}
	return holders, err
}

// Some compares some nodes, the next ones each time, and the accounts: cheap enough to run
// now and then beside decisions. It returns how many holders agree, or an error and the node
// in question.
func (c *Checker) Some(nodes int) (holders int, found *v1.Node, err error) {
	all := c.engine.inventory.All()
	if len(all) == 0 {
		return 0, nil, nil
	}
	slices.SortFunc(all, func(a, b inventory.Description) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	some := map[string]*ledger.Ledger{}
	objects := map[string]*v1.Node{}
	for range min(nodes, len(all)) {
		c.last = (c.last + 1) % len(all)
		d := all[c.last]
		l := ledger.New()
		if l.SetNode(d.Node) == nil {
			some[d.Object.Name], objects[d.Object.Name] = l, d.Object
		}
	}
	c.fill(func(node string) *ledger.Ledger { return some[node] })
	for _, l := range some {
		_, n := l.Size()
		holders += n
	}
	c.engine.do("check", func(d *driver, _ time.Time) {
		for name, l := range some {
			if diff := firstDifference(d.core.Nodes.InWords(model.NodeID(name)), l.String()); diff != nil {
				found, err = objects[name], diff
				return
			}
		}
		err = d.core.Verify()
	})
	return holders, found, err
}

// fill puts what pods and claims hold, as the stores say, into the ledgers of their nodes;
// nil: the node is not looked at.
func (c *Checker) fill(on func(node string) *ledger.Ledger) {
	e, standing := c.engine, c.Standings()
	put := func(node string, claims []ledger.Claim) {
		l := on(node)
		if l == nil {
			return
		}
		for _, claim := range claims {
			claim.Standing = standing(claim.Holder)
			l.Put(model.NodeID(node), claim)
		}
	}
	describe := func(name string) *model.Node {
		if d, there := e.inventory.Describe(name); there {
			return d.Node
		}
		return nil
	}
	for _, p := range c.holding() {
		if node := p.Spec.NodeName; on(node) != nil {
			claims, _, _ := e.driver.claims.HeldBy(p, func() *model.Node { return describe(node) })
			put(node, claims)
		}
	}
	locked := func(f func()) { e.do("check", func(*driver, time.Time) { f() }) }
	for node, claims := range e.driver.claims.OwnHolds(locked, describe) {
		put(node, claims)
	}
}

// Standings returns what holders' rights are founded on, as of now, for a ledger that is
// rebuilt.
func (c *Checker) Standings() func(model.HolderID) ledger.Standing {
	all := map[model.HolderID]ledger.Standing{}
	c.engine.do("check", func(d *driver, _ time.Time) {
		for _, p := range c.holding() {
			for _, h := range dialect.Holders(p) {
				all[h] = d.core.Nodes.Standing(h)
			}
		}
		for h := range d.claims.Holders() {
			all[h] = d.core.Nodes.Standing(h)
		}
	})
	return func(h model.HolderID) ledger.Standing { return all[h] }
}

// holding are the pods that hold something, as the store has them.
func (c *Checker) holding() []*v1.Pod {
	pods, _ := c.engine.driver.pods.List(labels.Everything()) // the store knows no error
	return slices.DeleteFunc(pods, func(p *v1.Pod) bool { return p.Spec.NodeName == "" || ended(p) })
}

func firstDifference(mine, rebuilt string) error {
	for mine != "" || rebuilt != "" {
		var x, y string
		x, mine, _ = strings.Cut(mine, "\n")
		if y, rebuilt, _ = strings.Cut(rebuilt, "\n"); x != y {
			return fmt.Errorf("the ledger says %q, the API says %q", x, y)
		}
	}
	return nil
}
