package cluster_test

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/test/coretest"
)

// build is a cluster with gangs, of which some run.
func build(t *rapid.T) (*cluster.Cluster, []*cluster.Tracked) {
	tree, err := arbiter.NewTree([]arbiter.Queue{{Name: arbiter.Default, Reclaimable: true}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := cluster.DefaultOptions()
	l := ledger.New()
	c := cluster.New(l, planner.New(l), tree, memo.New(&o.Timing), &o)
	for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		if _, err := c.SetNode(coretest.Node(fmt.Sprint("n", i)).GPUs(4, "A100").Build(), nil); err != nil {
			t.Fatal(err)
		}
	}
	c.CountFleet()
	var gangs []*cluster.Tracked
	for i := range rapid.IntRange(1, 6).Draw(t, "gangs") {
		g := cluster.Gang{ID: cluster.ID(fmt.Sprint("g", i)), Name: fmt.Sprint("g", i), Submitted: int64(i), Preemptible: true, Min: rapid.IntRange(1, 3).Draw(t, "members")}
		role := cluster.Role{Request: coretest.Request(rapid.IntRange(1, 4).Draw(t, "gpus"))}
		for m := range g.Min {
			role.Members = append(role.Members, model.HolderID(fmt.Sprintf("%s/%d", g.ID, m)))
		}
		g.Roles = []cluster.Role{role}
		s, err := c.Submit(g)
		if err != nil {
			t.Fatal(err)
		}
		c.Recount(s.Gang)
		if rapid.Bool().Draw(t, "starts") {
			tx := c.Begin()
			if plan, failure := tx.Plan(s.Gang.Demand()); failure == nil {
				tx.Keep()
				c.Take(s.Gang, &plan, int64(i))
				c.Charge(s.Gang)
			} else {
				tx.Rollback()
			}
		}
		gangs = append(gangs, s.Gang)
	}
	return c, gangs
}

// TestTxn: whatever is tried on a hypothesis, ledger and queues are as before when it is taken
// back, hypotheses inside of it included.
func TestTxn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, gangs := build(t)
		if err := c.Verify(); err != nil {
			t.Fatal(err)
		}
		text, status := c.Ledger().String(), c.Tree().Accounts()
		var waiting []arbiter.JobID
		for job := range c.Tree().Order(100) {
			waiting = append(waiting, job.ID)
		}
		var try func(depth int)
		try = func(depth int) {
			tx := c.Begin()
			defer tx.Rollback()
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				k := rapid.SampledFrom(gangs).Draw(t, "gang")
				switch rapid.IntRange(0, 3).Draw(t, "change") {
				case 0:
					for _, h := range k.PlacedMembers() {
						tx.Drop(h)
					}
				case 1:
					if hs := k.PlacedMembers(); len(hs) > 0 {
						tx.Discharge(k, hs[:1])
					}
				case 2:
					if k.Missing() > 0 {
						tx.Start(k)
					}
				default:
					if depth < 3 {
						try(depth + 1)
					}
				}
			}
		}
		try(0)
		if got := c.Ledger().String(); got != text {
			t.Fatalf("ledger before:\n%s\nafter:\n%s", text, got)
		}
		if got := c.Tree().Accounts(); !reflect.DeepEqual(got, status) {
			t.Fatalf("queues before: %+v\nafter: %+v", status, got)
		}
		var after []arbiter.JobID
		for job := range c.Tree().Order(100) {
			after = append(after, job.ID)
		}
		if !reflect.DeepEqual(after, waiting) {
			t.Fatalf("order before: %v, after: %v", waiting, after)
		}
		if err := c.Verify(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestVerify: a cluster whose ledger was changed behind its back is found out.
func TestVerify(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, gangs := build(t)
		for _, k := range gangs {
			if hs := k.PlacedMembers(); len(hs) > 0 {
				c.Ledger().Drop(hs[0])
				if c.Verify() == nil {
					t.Fatal("a member has a place, and the ledger has no claim of it")
				}
				return
			}
		}
	})
}
