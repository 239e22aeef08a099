package preempt_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/test/coretest"
)

// node is an engine that is told of pods that run, as the extender's.
type node struct {
	e *engine.Engine
	l *ledger.Ledger
}

func newNode(t interface{ Fatal(...any) }, nodes ...*model.Node) *node {
	tree, err := arbiter.NewTree([]arbiter.Queue{{Name: arbiter.Default, Reclaimable: true}, {Name: "other", Reclaimable: true}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New()
	n := &node{engine.New(l, planner.New(l), tree, engine.DefaultOptions()), l}
	for _, x := range nodes {
		if err := n.e.Apply(0, engine.NodeSet{Node: x}).Err; err != nil {
			t.Fatal(err)
		}
	}
	n.e.Apply(0, engine.FleetCounted{})
	return n
}

// run tells of a gang of which members run on nodes, each with a request.
func (n *node) run(t interface{ Fatal(...any) }, g engine.Gang, r *model.Request, on ...model.NodeID) {
	role := engine.Role{Request: r}
	for i := range on {
		role.Members = append(role.Members, model.HolderID(fmt.Sprintf("%s/%d", g.ID, i)))
	}
	g.Min = max(g.Min, 1)
	g.Roles = []engine.Role{role}
	if err := n.e.Apply(0, engine.Submitted{Gang: g}).Err; err != nil {
		t.Fatal(err)
	}
	for i, id := range on {
		v, _ := n.l.View(id)
		grant, refusal := place.Fit(r, v)
		if refusal != nil {
			t.Fatal(refusal)
		}
		n.e.Apply(0, engine.Bound{Node: id, Holders: role.Members[i : i+1], Claims: []ledger.Claim{grant.Claim(role.Members[i], r, v.Node)}})
	}
	n.e.Apply(int64(time.Hour)) // what runs has run for a while
}

// TestOnNode: the rule of preemption, node by node: gangs, queues and protection count, not
// priority alone.
func TestOnNode(t *testing.T) {
	two := func() *node {
		return newNode(t, coretest.Node("n0").GPUs(2, "A100").Build(), coretest.Node("n1").GPUs(2, "A100").Build())
	}
	high := engine.Gang{ID: "high", Name: "ns/high", Priority: 10}
	for name, tt := range map[string]struct {
		build  func(*node)
		by     engine.Gang
		chosen []model.HolderID
		want   []model.HolderID
		ok     bool
	}{
		"a lower priority makes room": {
			build: func(n *node) { n.run(t, engine.Gang{ID: "low", Preemptible: true}, coretest.Request(2), "n0") },
			by:    high, want: []model.HolderID{"low/0"}, ok: true,
		},
		"an equal priority does not": {
			build: func(n *node) {
				n.run(t, engine.Gang{ID: "low", Priority: 10, Preemptible: true}, coretest.Request(2), "n0")
			},
			by: high,
		},
		"a protected pod does not, whatever was chosen": {
			build: func(n *node) { n.run(t, engine.Gang{ID: "low"}, coretest.Request(2), "n0") },
			by:    high, chosen: []model.HolderID{"low/0"},
		},
		"a gang that would be left in part does not": {
			build: func(n *node) {
				n.run(t, engine.Gang{ID: "low", Min: 2, Preemptible: true}, coretest.Request(2), "n0", "n1")
			},
			by: high,
		},
		"nor when another scheduler chose its member": {
			build: func(n *node) {
				n.run(t, engine.Gang{ID: "low", Min: 2, Preemptible: true}, coretest.Request(2), "n0", "n1")
			},
			by: high, chosen: []model.HolderID{"low/0"},
		},
		"a gang on this node alone goes whole": {
			build: func(n *node) {
				n.run(t, engine.Gang{ID: "low", Min: 2, Preemptible: true}, coretest.Request(1), "n0", "n0")
			},
			by: high, chosen: []model.HolderID{"low/0"}, want: []model.HolderID{"low/1"}, ok: true,
		},
		"a member beyond the minimum goes alone": {
			build: func(n *node) {
				n.run(t, engine.Gang{ID: "low", Min: 1, Preemptible: true}, coretest.Request(2), "n0", "n1")
			},
			by: high, chosen: []model.HolderID{"low/0"}, ok: true,
		},
		"another queue within its share gives nothing": {
			build: func(n *node) {
				n.run(t, engine.Gang{ID: "low", Queue: "other", Preemptible: true}, coretest.Request(2), "n0")
			},
			by: high,
		},
		"a pod that never preempts takes no place": {
			build: func(n *node) { n.run(t, engine.Gang{ID: "low", Preemptible: true}, coretest.Request(2), "n0") },
			by:    engine.Gang{ID: "high", Priority: 10, NeverPreempts: true},
		},
		"a pod that has just started stays": {
			build: func(n *node) {
				n.run(t, engine.Gang{ID: "low", Preemptible: true, MinRuntime: 2 * time.Hour}, coretest.Request(2), "n0")
			},
			by: high,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := two()
			tt.build(n)
			got, ok := n.e.Nodes.Victims(&tt.by, coretest.Request(2), "n0", tt.chosen)
			if ok != tt.ok || !slices.Equal(got, tt.want) {
				t.Errorf("got %v, %v, want %v, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

// TestOnNodeMinimal: every victim is needed, their evictions are enough, and all have lower
// priority.
func TestOnNodeMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode(t, coretest.DrawNode(t, "n0"))
		var lower []model.HolderID
		r := coretest.DrawRequest(t)
		for i := range rapid.IntRange(0, 8).Draw(t, "placed") {
			other := coretest.DrawRequest(t)
			if v, _ := n.l.View("n0"); func() bool { _, refusal := place.Fit(other, v); return refusal != nil }() {
				continue
			}
			id := engine.ID(fmt.Sprint("g", i))
			n.run(t, engine.Gang{ID: id, Name: string(id), Priority: other.Priority, Preemptible: true}, other, "n0")
			if other.Priority < r.Priority {
				lower = append(lower, model.HolderID(fmt.Sprintf("%s/0", id)))
			}
		}
		fitsWithout := func(gone []model.HolderID) bool {
			v, _ := n.l.ViewWith("n0", func(h model.HolderID) bool { return slices.Contains(gone, h) }, nil)
			_, refusal := place.Fit(r, v)
			return refusal == nil
		}
		victims, ok := n.e.Nodes.Victims(&engine.Gang{ID: "new", Priority: r.Priority}, r, "n0", nil)
		if ok != fitsWithout(lower) {
			t.Fatalf("says %v; without all %d less important holders it fits: %v", ok, len(lower), fitsWithout(lower))
		}
		if !ok {
			return
		}
		if !fitsWithout(victims) {
			t.Fatalf("victims %v do not help", victims)
		}
		for i, h := range victims {
			if !slices.Contains(lower, h) {
				t.Fatalf("victim %s is too important", h)
			}
			if fitsWithout(slices.Delete(slices.Clone(victims), i, i+1)) {
				t.Fatalf("victim %s of %v is not needed", h, victims)
			}
		}
	})
}
