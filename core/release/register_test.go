package release_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/memo"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/release"
	"github.com/tangram-dev/tangram/test/coretest"
)

// TestBatches: over random ways to a Binding a ticket is used once, a batch is bound whole or
// not at all until its last member is reserved, and what is undone was released.
func TestBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, err := arbiter.NewTree([]arbiter.Queue{{Name: arbiter.Default}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		o := cluster.DefaultOptions()
		o.BatchTimeout = time.Minute
		l, m := ledger.New(), memo.New(&o.Timing)
		c := cluster.New(l, planner.New(l), tree, m, &o)
		if _, err := c.SetNode(coretest.Node("n").GPUs(8, "A100").Build(), nil); err != nil {
			t.Fatal(err)
		}
		d := release.New(c)
		g := cluster.Gang{ID: "g", Name: "g", Min: rapid.IntRange(1, 4).Draw(t, "members")}
		role := cluster.Role{Request: coretest.Request(1)}
		plan := gang.Plan{}
		for i := range g.Min {
			h := model.HolderID(fmt.Sprint("g/", i))
			role.Members = append(role.Members, h)
			plan.Placements = append(plan.Placements, gang.Placement{Holder: h, Node: "n"})
		}
		g.Roles = []cluster.Role{role}
		s, err := c.Submit(g)
		if err != nil {
			t.Fatal(err)
		}
		used := map[release.Ticket]bool{}
		now := int64(0)
		issue := func() {
			d.Issue(s.Gang, &plan)
			for _, r := range d.Effects().Released {
				if used[r.Ticket] {
					t.Fatalf("ticket %d is given twice", r.Ticket)
				}
				used[r.Ticket] = true
			}
		}
		issue()
		going := false
		check := func(u release.Undone) {
			if u.Gang == "" {
				return
			}
			if !going && len(u.Members) != g.Min {
				t.Fatalf("%v are undone of %d that start together", u.Members, g.Min)
			}
			fx := d.Effects()
			for _, h := range u.Members {
				if !slices.Contains(fx.Revoked, h) {
					t.Fatalf("%s is undone and its release not revoked", h)
				}
				if d.Released(h) {
					t.Fatalf("%s is undone and still released", h)
				}
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			h := rapid.SampledFrom(role.Members).Draw(t, "member")
			r, released := d.Release(h)
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				d.Seen(h, r.Ticket)
			case 1:
				d.Seen(h, r.Ticket) // its cycle begins before it is reserved
				if ready, others, ok := d.Reserved(h, r.Ticket); ok != released {
					t.Fatalf("reserved %v, released %v", ok, released)
				} else if ready {
					going = true
					if len(others) >= g.Min {
						t.Fatalf("%v go with it", others)
					}
				}
			case 2:
				check(d.Fail(h, r.Ticket, rapid.Bool().Draw(t, "at fault"), "no"))
			case 3:
				check(d.Lose(h))
			default:
				now += int64(rapid.IntRange(1, 90).Draw(t, "seconds")) * int64(time.Second)
				m.Step(now)
				d.Watch(now, check)
			}
			if d.Open() == 0 {
				going = false
				issue()
			}
			if err := d.Verify(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
