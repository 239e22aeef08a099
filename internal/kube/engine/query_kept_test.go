package engine

import (
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/answer"
)

// payer sees all, and sums up what it is charged.
type payer struct{ held time.Duration }

func (*payer) MayListPods(string) bool        { return true }
func (*payer) MayListNodes() bool             { return true }
func (*payer) MayListQueues() bool            { return true }
func (p *payer) Charge(_, held time.Duration) { p.held += held }

// TestReasonsAreKept: a gang is planned for once a second, however often it is asked about,
// and at once when its members changed.
func TestReasonsAreKept(t *testing.T) {
	s := newSetup(t, 1)
	runs := s.runs("runs", 1, 8)
	s.gang("waits", 2, 4)
	s.Step()
	why := func() string {
		return s.Why(t.Context(), "Pod", "default", "waits0", &payer{}, nil).Reason.Code
	}
	first := why()
	if first == "" {
		t.Fatal("no reason")
	}
	s.deletePod(runs[0].Name)
	s.Sync()
	if again := why(); again != first {
		t.Errorf("%s became %s within a second: it was planned for again", first, again)
	}
	s.now = s.now.Add(answer.DefaultAges().Reasons)
	if later := why(); later == first {
		t.Errorf("still %s", later)
	}
	s.deletePod("waits1")
	s.Sync()
	if members := s.Why(t.Context(), "Pod", "default", "waits0", &payer{}, nil); members.Reason.Code == first || members.Gang.Exist != 1 || members.Reason.Exist != 1 {
		t.Errorf("with one member less: %+v", members.Reason)
	}
}

// TestMeritsAreKept: the same for why a pod is where it is.
func TestMeritsAreKept(t *testing.T) {
	s := newSetup(t, 2)
	pods := s.runs("runs", 1, 4)
	fit := func() int {
		x, problem := s.Explain("default", pods[0].Name, &payer{})
		if problem != "" {
			t.Fatal(problem)
		}
		return x.Fit
	}
	first := fit()
	node := string(s.driver.core.Gangs.NodeOf(model.HolderID(pods[0].UID)))
	other := map[string]string{"n0": "n1", "n1": "n0"}[node]
	n := testNode(other, 8)
	n.Spec.Unschedulable = true
	s.addNode(n)
	s.Sync()
	if again := fit(); again != first {
		t.Errorf("%d nodes fit, then %d within a second", first, again)
	}
	s.now = s.now.Add(answer.DefaultAges().Reasons)
	if later := fit(); later != first-1 {
		t.Errorf("%d nodes fit, then still %d", first, later)
	}
}

// TestCallersPay: who asks is told for how long the lock was held.
func TestCallersPay(t *testing.T) {
	s := newSetup(t, 1)
	pods := s.runs("runs", 1, 8)
	s.gang("waits", 1, 8)
	s.Step()
	asks, explains := &payer{}, &payer{}
	s.Why(t.Context(), "Pod", "default", "waits0", asks, nil)
	s.Explain("default", pods[0].Name, explains)
	if asks.held == 0 || explains.held == 0 {
		t.Errorf("charged %s and %s", asks.held, explains.held)
	}
}
