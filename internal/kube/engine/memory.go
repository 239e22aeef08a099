package engine

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/state"
)

// Learned returns what was learned, to be kept for another process.
func (e *Engine) Learned() *state.State {
	s := &state.State{}
	var runtimes *arbiter.Runtimes
	e.do("save", func(d *driver, now time.Time) {
		s.At, s.Learned, runtimes = now.UnixNano(), d.core.Save(), d.work.Runtimes()
	})
	s.Runtimes = runtimes.Save() // sorts, which need not hold the lock
	return s
}

// Restore replaces what was learned by what another process has learned. It is called
// before the first step, when everything has been seen that existed when this process
// started.
func (e *Engine) Restore(s *state.State) {
	e.do("restore", func(d *driver, now time.Time) {
		d.work.RestoreRuntimes(s.Runtimes)
		d.restore(s, now)
		pods, _ := d.pods.List(labels.Everything()) // the store knows no error
		slices.SortFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(a.UID, b.UID) })
		for _, p := range pods { // earlier ones are in the saved state
			if d.arrived[model.HolderID(p.UID)] && p.CreationTimestamp.Time.After(time.Unix(0, s.At)) {
				d.learnOf(p)
			}
		}
	})
}

// restore gives core what was learned, when gangs and nodes are known to it.
func (d *driver) restore(s *state.State, now time.Time) {
	d.describeChanged(now)
	d.fleetChanged = true
	d.countFleet()
	d.tell(engine.Restored{Learned: s.Learned})
}
