package answer

import (
	"sync"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/test/coretest"
)

// start is when every test begins.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fake is an engine with a node, of which tests know the gangs that wait.
type fake struct {
	core *engine.Engine
	mu   sync.Mutex // the engine's lock
	now  time.Time
}

func newFake(t *testing.T, queues ...arbiter.Queue) *fake {
	t.Helper()
	tree, err := arbiter.NewTree(append(queues, arbiter.Queue{Name: arbiter.Default}), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New()
	f := &fake{core: engine.New(l, planner.New(l), tree, engine.DefaultOptions()), now: start}
	f.core.Apply(start.UnixNano(), engine.NodeSet{Node: coretest.Node("n").GPUs(8, "A100").Build()}, engine.FleetCounted{})
	return f
}

// submit adds a gang of one that waits behind the others.
func (f *fake) submit(t *testing.T, id engine.ID) {
	t.Helper()
	waiting, _ := f.core.Gangs.Size()
	g := engine.Gang{ID: id, Namespace: "ns", Name: "ns/" + string(id), Submitted: int64(waiting), Min: 1,
		Roles: []engine.Role{{Request: coretest.Request(1), Members: []model.HolderID{model.HolderID(id)}}}}
	if err := f.core.Apply(start.UnixNano(), engine.Submitted{Gang: g}).Err; err != nil {
		t.Fatal(err)
	}
}

func (f *fake) Look(_ string, look func(*View)) (waited, held time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	look(&View{Core: f.core.Answers})
	return 0, 1
}

func (f *fake) answers() *Answers {
	return New(Config{Reader: f, Clock: func() time.Time { return f.now }, Ages: DefaultAges()})
}

// payer is told how long the lock was held for it.
type payer struct{ held time.Duration }

func (*payer) MayListPods(string) bool        { return true }
func (*payer) MayListNodes() bool             { return true }
func (*payer) MayListQueues() bool            { return true }
func (p *payer) Charge(_, held time.Duration) { p.held += held }

// TestOrderIsNotWaitedFor: an order that is a little old is shown while it is drawn anew; a
// gang that has no place in it waits for the new one.
func TestOrderIsNotWaitedFor(t *testing.T) {
	f := newFake(t)
	f.submit(t, "first")
	a := f.answers()
	if position, _ := a.turnOf(&payer{}, "first", "ns", true); position != 1 {
		t.Fatalf("position %d", position)
	}
	f.submit(t, "second")
	f.now = f.now.Add(DefaultAges().Lists)
	shown := make(chan int, 1)
	f.mu.Lock() // a step is under way
	go func() {
		position, _ := a.turnOf(&payer{}, "first", "ns", true)
		shown <- position
	}()
	select {
	case position := <-shown:
		if position != 1 {
			t.Errorf("position %d", position)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for the lock")
	}
	f.mu.Unlock()
	paid := &payer{}
	position, ahead := a.turnOf(paid, "second", "ns", true)
	if position != 2 || len(ahead) != 1 || ahead[0].Name != "first" {
		t.Errorf("the new one has position %d, behind %v", position, ahead)
	}
	for drawn := false; !drawn; time.Sleep(time.Millisecond) { // the test must not end before it
		a.turns.mu.Lock()
		drawn = !a.turns.drawing
		a.turns.mu.Unlock()
	}
}

// TestHistory: the last hour of a queue, of those that are asked for.
func TestHistory(t *testing.T) {
	f := newFake(t, arbiter.Queue{Name: "a", Weight: 1}, arbiter.Queue{Name: "b", Weight: 1})
	a := f.answers()
	for i := range historySize + 5 {
		a.sampleQueues(start.Add(time.Duration(i) * historyEvery))
	}
	h := a.History(func(queue string) bool { return queue == "b" })
	if len(h.Queues) != 1 || h.Queues[0].Queue != "b" || len(h.Queues[0].At) != historySize || !h.Queues[0].At[0].Equal(start.Add(5*historyEvery)) {
		t.Errorf("history %+v", h.Queues)
	}
}

// TestAlwaysAnew: without ages, as for a replica whose clock stands still, nothing is kept.
func TestAlwaysAnew(t *testing.T) {
	f := newFake(t)
	a := f.answers()
	a.Ages = Ages{}
	for want := 1; want < 4; want++ {
		id := engine.ID(rune('a' + want))
		f.submit(t, id)
		if position, _ := a.turnOf(&payer{}, id, "ns", false); position != want {
			t.Errorf("position %d, want %d", position, want)
		}
	}
}
