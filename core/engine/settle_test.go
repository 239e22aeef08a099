package engine_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/test/coretest"
)

// released is an engine with a node of 4 GPUs and a gang of one that was promised 2 of them.
func released(t *testing.T) (*engine.Engine, engine.Release) {
	t.Helper()
	l := ledger.New()
	tree, err := arbiter.NewTree(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := engine.DefaultOptions()
	o.BatchTimeout = 1e9
	e := engine.New(l, planner.New(l), tree, o)
	if _, err := e.SetNode(coretest.Node("n").GPUs(4, "A100").Build(), nil); err != nil {
		t.Fatal(err)
	}
	e.CountFleet()
	r := &model.Request{Vendor: model.NVIDIA, Containers: []model.Container{{Name: "a", Count: 2}}}
	if err := e.Submit(engine.Gang{ID: "g", Name: "g", Min: 1, Roles: []engine.Role{{Request: r, Members: []model.HolderID{"p"}}}}); err != nil {
		t.Fatal(err)
	}
	e.Decide(1)
	out, ok := e.Release("p")
	if !ok {
		t.Fatalf("not released: %v", e.Why("g"))
	}
	return e, out
}

func refs(n *model.Node, slots ...int) (out []ledger.DeviceRef) {
	for _, s := range slots {
		out = append(out, ledger.DeviceRef{Index: n.Devices[s].Index, UUID: n.Devices[s].UUID})
	}
	return out
}

// TestSettle: a member takes the devices that an allocator chose, if they are free.
func TestSettle(t *testing.T) {
	e, r := released(t)
	if refusal := e.Pend("n", ledger.Claim{Holder: "c/claim", Vendor: model.NVIDIA, Count: 1, Devices: refs(r.Node, 3)}); refusal != nil {
		t.Fatalf("a free device: %v", refusal)
	}
	if refusal := e.Pend("n", ledger.Claim{Holder: "d/claim", Vendor: model.NVIDIA, Count: 1, Devices: refs(r.Node, 3)}); refusal == nil {
		t.Fatal("a held device was given twice")
	}
	if _, refusal := e.Settle("p", r.Ticket, ledger.Claim{Count: 2, Devices: refs(r.Node, 2, 3)}); refusal == nil {
		t.Fatal("a held device was given twice")
	}
	if !e.Holds("p", r.Ticket) {
		t.Fatal("a refusal changed what is held")
	}
	got, refusal := e.Settle("p", r.Ticket, ledger.Claim{Count: 2, Devices: refs(r.Node, 1, 2)})
	if refusal != nil || got.Grant.Set != 0b110 || !e.Holds("p", r.Ticket) {
		t.Fatalf("got %b, %v", got.Grant.Set, refusal)
	}
	if free := e.Unfree("n", "p"); free != 0b1000 {
		t.Errorf("others hold %b", free)
	}
	if _, refusal := e.Settle("p", r.Ticket+1, ledger.Claim{}); refusal == nil {
		t.Error("a ticket that is not good was honoured")
	}
	if !e.Assumes("p") || e.Assumes("q") {
		t.Error("what is assumed")
	}
	if err := e.Nodes.Audit(); err != nil {
		t.Error(err)
	}
	if err := e.Verify(); err != nil {
		t.Error(err)
	}
}
