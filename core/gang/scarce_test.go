package gang_test

import (
	"fmt"
	"testing"

	"github.com/tangram-dev/tangram/core/gang"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// scarce is racks of four nodes with A100s, half of them free, the last three racks
// with H100s: of those 8, 16 and 32 are free.
func scarce(t testing.TB, racks int) world {
	var nodes []*model.Node
	for i := range 4 * racks {
		name := "A100"
		if i/4 >= racks-3 {
			name = "H100"
		}
		nodes = append(nodes, coretest.Node(fmt.Sprintf("n%05d", i)).GPUs(8, name).Domains(fmt.Sprintf("z%04d", i/40), fmt.Sprintf("r%04d", i/4)).Build())
	}
	w := newWorld(t, nodes...)
	for i := range 4 * (racks - 3) {
		w.take(fmt.Sprintf("n%05d", i), 4)
	}
	for rack, full := range []int{3, 2, 0} {
		for i := range full {
			w.take(fmt.Sprintf("n%05d", 4*(racks-3+rack)+i), 8)
		}
	}
	return w
}

func wants(count, gpus int, name string) *gang.Ask {
	a := ask(count, gpus)
	a.Roles[0].Request.UseModels = []model.GPUModel{model.ParseModel(name)}
	return a
}

// A gang that wants a scarce model goes to the tightest rack that has enough of it,
// though many tighter ones have enough of others.
func TestScarceModel(t *testing.T) {
	const racks = 200
	w := scarce(t, racks)
	if p := w.plan(t, wants(4, 4, "H100")); p.Domain != fmt.Sprintf("z%04d/r%04d", (racks-2)/10, racks-2) {
		t.Errorf("in %q on %v", p.Domain, nodesOf(p))
	}
	w = scarce(t, racks)
	a := wants(8, 4, "H100")
	a.Require = rack
	if p := w.plan(t, a); p.Domain != fmt.Sprintf("z%04d/r%04d", (racks-1)/10, racks-1) {
		t.Errorf("in %q", p.Domain)
	}
	a = wants(9, 4, "H100")
	a.Require = rack
	if f := w.refuse(t, a); f.String() != "waits for capacity: needs 9 members in one rack, and no rack has room for them" {
		t.Error(f)
	}
	// Several roles: where the scarce one has room.
	w = scarce(t, racks)
	b := roles([]int{4, 1}, wants(1, 4, "H100").Roles[0].Request, coretest.Request(1))
	b.Roles[0].Name = "scarce"
	if p := w.plan(t, b); p.Domain != fmt.Sprintf("z%04d/r%04d", (racks-1)/10, racks-1) {
		t.Errorf("in %q", p.Domain)
	}
}

// What a plan for a scarce model costs must not grow with the nodes that have none of
// it.
func BenchmarkScarce(b *testing.B) {
	for _, racks := range []int{250, 4000} {
		for _, level := range []model.Level{{}, rack} {
			b.Run(fmt.Sprintf("%s/nodes=%d", level.Name, 4*racks), func(b *testing.B) {
				w := scarce(b, racks)
				a := wants(4, 4, "H100")
				a.Require, a.Terse = level, true
				w.p.Sync()
				for b.Loop() {
					tx := w.l.Begin()
					if _, failure := gang.Make(w.l, w.p, a); failure != nil {
						b.Fatal(failure)
					}
					tx.Rollback()
				}
			})
		}
	}
}
