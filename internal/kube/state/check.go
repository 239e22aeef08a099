package state

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Check compares the ledger with one built anew from what the API says now:
// records are the truth, memory is a cache. It returns how many holders agree,
// or an error that shows the first difference. Promises not yet written are not
// compared; events still under way show as differences, so ask a quiet cluster.
func (c *Cluster) Check() (holders int, err error) {
	rebuilt := ledger.New()
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	for _, n := range nodes {
		inv, _ := dialect.Describe(n, c.facts(n.Name))
		if err := rebuilt.SetNode(inv); err != nil {
			return 0, err
		}
	}
	pods, err := c.pods.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	for _, p := range pods {
		if p.Spec.NodeName == "" || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		claims, _ := dialect.Claims(p)
		for _, claim := range claims {
			rebuilt.Put(model.NodeID(p.Spec.NodeName), claim)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ledger.Audit(); err != nil {
		return 0, err
	}
	tx := c.ledger.Begin()
	for _, h := range c.ledger.Assumed() {
		c.ledger.Forget(h)
	}
	mine := c.ledger.String()
	tx.Rollback()
	_, holders = rebuilt.Size()
	return holders, firstDifference(mine, rebuilt.String())
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
