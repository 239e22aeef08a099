package engine

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Check compares the ledger with one built anew from what the API says now (records are
// the truth, memory is a cache), and checks core's invariants: limits, gangs, and
// released pods that do not come to their cycle. It returns how many holders agree, or
// an error that shows the first difference. Promises not yet written are not compared.
func (e *Engine) Check() (holders int, err error) {
	rebuilt, err := e.rebuild()
	if err != nil {
		return 0, err
	}
	_, holders = rebuilt.Size()
	e.do("check", func(time.Time) {
		err = e.core.Audit()
		if err == nil {
			err = firstDifference(e.core.Confirmed(), rebuilt.String())
		}
	})
	return holders, err
}

// rebuild makes a ledger of what the stores say.
func (e *Engine) rebuild() (*ledger.Ledger, error) {
	rebuilt := ledger.New()
	for _, d := range e.inventory.All() {
		if err := rebuilt.SetNode(d.Node); err != nil {
			return nil, err
		}
	}
	pods, err := e.pods.List(labels.Everything())
	if err != nil {
		return nil, err
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
	return rebuilt, nil
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
