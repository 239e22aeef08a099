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

// Check compares the ledger with one built anew from what the API says now (records are
// the truth, memory is a cache), and checks the engine's own accounts: places, charges of
// queues, released pods that are lost. Who was seen first is known to memory only, and is
// taken over. It returns how many holders agree, or an error that
// shows the first difference. Promises not yet written are not compared; events still
// under way show as differences, so ask a quiet cluster.
func (e *Engine) Check() (holders int, err error) {
	standing := e.Standings()
	rebuilt := ledger.New()
	for _, d := range e.inventory.All() {
		if err := rebuilt.SetNode(d.Node); err != nil {
			return 0, err
		}
	}
	for _, p := range e.holding() {
		claims, _, _ := e.claimsOf(p, func() *model.Node { return e.described(p.Spec.NodeName) })
		for _, claim := range claims {
			claim.Standing = standing(claim.Holder)
			rebuilt.Put(model.NodeID(p.Spec.NodeName), claim)
		}
	}
	for node, claims := range e.standingClaims() {
		for _, claim := range claims {
			claim.Standing = standing(claim.Holder)
			rebuilt.Put(model.NodeID(node), claim)
		}
	}
	_, holders = rebuilt.Size()
	e.do("check", func(time.Time) {
		if err = e.core.Audit(); err == nil {
			err = firstDifference(e.core.Confirmed(), rebuilt.String())
		}
		if err == nil {
			err = e.core.Verify()
		}
	})
	if err != nil {
		metrics.CheckFailed("full")
	}
	return holders, err
}

// Standings returns what holders' rights are founded on, as of now, for a ledger that is
// rebuilt.
func (e *Engine) Standings() func(model.HolderID) ledger.Standing {
	known := map[model.HolderID]ledger.Standing{}
	e.do("check", func(time.Time) {
		for _, p := range e.holding() {
			for _, h := range dialect.Holders(p) {
				known[h] = e.core.Standing(h)
			}
		}
		for _, h := range e.claimHolders() {
			known[h] = e.core.Standing(h)
		}
	})
	return func(h model.HolderID) ledger.Standing { return known[h] }
}

// holding are the pods that hold something, as the store has them.
func (e *Engine) holding() []*v1.Pod {
	pods, _ := e.pods.List(labels.Everything()) // the store knows no error
	return slices.DeleteFunc(pods, func(p *v1.Pod) bool {
		return p.Spec.NodeName == "" || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
	})
}

// CheckSome is Check of some nodes, the next ones each time, and of the accounts: cheap
// enough to run now and then beside decisions. It returns how many holders agree, or an
// error and the node in question.
func (e *Engine) CheckSome(nodes int) (holders int, found *v1.Node, err error) {
	all := e.inventory.All()
	if len(all) == 0 {
		return 0, nil, nil
	}
	slices.SortFunc(all, func(a, b inventory.Description) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	some := map[string]*ledger.Ledger{}
	objects := map[string]*v1.Node{}
	for range min(nodes, len(all)) {
		e.checked = (e.checked + 1) % len(all)
		d := all[e.checked]
		l := ledger.New()
		if l.SetNode(d.Node) == nil {
			some[d.Object.Name], objects[d.Object.Name] = l, d.Object
		}
	}
	standing := e.Standings()
	for _, p := range e.holding() {
		if l := some[p.Spec.NodeName]; l != nil {
			claims, _, _ := e.claimsOf(p, func() *model.Node { return e.described(p.Spec.NodeName) })
			for _, claim := range claims {
				claim.Standing = standing(claim.Holder)
				l.Put(model.NodeID(p.Spec.NodeName), claim)
			}
		}
	}
	for node, claims := range e.standingClaims() {
		for _, claim := range claims {
			if l := some[node]; l != nil {
				claim.Standing = standing(claim.Holder)
				l.Put(model.NodeID(node), claim)
			}
		}
	}
	for _, l := range some {
		_, n := l.Size()
		holders += n
	}
	e.do("check", func(time.Time) {
		for name, l := range some {
			if diff := firstDifference(e.core.NodeInWords(model.NodeID(name)), l.String()); diff != nil {
				found, err = objects[name], diff
				return
			}
		}
		err = e.core.Verify()
	})
	return holders, found, err
}

func firstDifference(mine, rebuilt string) error {
	a, b := strings.Split(mine, "\n"), strings.Split(rebuilt, "\n")
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Errorf("the ledger says %q, the API says %q", x, y)
		}
	}
	return nil
}
