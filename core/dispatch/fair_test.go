package dispatch_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/dispatch"
)

// TestShares: four queues with weights 1:2:3:4 on 64 GPUs, always with work, get GPU
// time within 2 % of their weights; one that was idle is back at its share within a
// minute of returning.
func TestShares(t *testing.T) {
	for _, seed := range []uint64{0, 1, 2, 3} { // 0: one GPU each; otherwise mixed
		mixed := seed > 0
		t.Run(fmt.Sprint("mix ", seed), func(t *testing.T) {
			var queues []arbiter.Queue
			for i := range 4 {
				queues = append(queues, arbiter.Queue{Name: fmt.Sprint("q", i), Weight: int64(i + 1), Reclaimable: true})
			}
			w := &timed{newWorld(t, options(), queues, nodes(8, 8)...), map[dispatch.ID]time.Duration{}}
			r := rand.New(rand.NewPCG(seed, 2))
			next := 0
			waiting := map[string]int{}
			feed := func(idle int) {
				clear(waiting)
				for id, g := range w.gangs {
					if len(w.placed[id]) == 0 {
						waiting[g.Queue]++
					}
				}
				for i := range queues {
					for i != idle && waiting[queues[i].Name] < 40 {
						members, gpus := 1, 1
						if mixed {
							members, gpus = []int{1, 1, 2}[r.IntN(3)], 1+r.IntN(2)
						}
						g := simple(fmt.Sprintf("g%06d", next), members, gpus)
						g.Queue, g.Submitted = queues[i].Name, w.now
						g.Runtime = time.Duration(5+r.IntN(50)) * time.Second
						w.truth[g.ID] = g.Runtime
						next++
						waiting[g.Queue]++
						w.submit(g)
					}
				}
			}
			measure := func(from, to int64, idle int) []float64 {
				used := make([]float64, 4)
				for at := from; at < to; at += second {
					feed(idle)
					w.advanceEvicting(at)
					for i, q := range queues {
						used[i] += float64(w.tree.Map(w.tree.Used(q.Name))[gpu]) / 64000 / float64((to-from)/second)
					}
				}
				sum := used[0] + used[1] + used[2] + used[3]
				if sum < 0.85 {
					t.Errorf("%.3f of the cluster is in use", sum)
				}
				for i := range used {
					used[i] /= sum
				}
				return used
			}
			measure(0, 120*second, -1)
			for i, u := range measure(120*second, 720*second, -1) {
				if want := float64(i+1) / 10; u < want-0.02 || u > want+0.02 {
					t.Errorf("queue %d has %.3f of what is in use, its weight is %.3f", i, u, want)
				}
			}
			for _, id := range ids(w) {
				if w.gangs[id].Queue == "q3" {
					w.withdraw(id)
				}
			}
			for i, u := range measure(720*second, 1020*second, 3) {
				if want := float64(i+1) / 6; i < 3 && u < want-0.1 {
					t.Errorf("while one is idle, queue %d has %.3f", i, u)
				}
			}
			measure(1020*second, 1080*second, -1)
			for i, u := range measure(1080*second, 1380*second, -1) {
				if want := float64(i+1) / 10; u < want-0.02 || u > want+0.02 {
					t.Errorf("after the return queue %d has %.3f, its weight is %.3f", i, u, want)
				}
			}
		})
	}
}

func ids(w *timed) (out []dispatch.ID) {
	for id := range w.gangs {
		out = append(out, id)
	}
	return out
}

// advanceEvicting is advance with victims that leave at once and begin anew.
func (w *timed) advanceEvicting(to int64) {
	w.advance(to, func() {})
	for _, id := range ids(w) {
		if len(w.placed[id]) == 0 {
			delete(w.begun, id)
		}
	}
	if w.carryOut(w.last) > 0 {
		for _, id := range ids(w) {
			if len(w.placed[id]) == 0 {
				delete(w.begun, id)
			}
		}
		w.decide()
	}
}
