package engine

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/state"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Learned returns what was learned, to be kept for another process.
func (e *Engine) Learned() *state.State {
	s := &state.State{}
	var runtimes *arbiter.Runtimes
	e.do("save", func(now time.Time) {
		s.At, s.Learned = now.UnixNano(), e.core.Save()
		runtimes = e.work.Runtimes()
	})
	s.Runtimes = runtimes.Save() // sorts, which need not hold the lock
	return s
}

// Restore replaces what was learned by what another process has learned. It is called
// before the first step, when everything has been seen that existed when this process
// started.
func (e *Engine) Restore(s *state.State) {
	e.do("restore", func(now time.Time) {
		e.work.RestoreRuntimes(s.Runtimes)
		e.describeChanged(now)
		e.fleetChanged = false
		e.core.CountFleet()
		e.core.Restore(s.Learned, now.UnixNano())
		e.arriveSince(time.Unix(0, s.At))
	})
}

// arriveSince tells the planner of the pods that have come since a time: of those before,
// the process that saved its state has told.
func (e *Engine) arriveSince(at time.Time) {
	pods, _ := e.pods.List(labels.Everything()) // the store knows no error
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	for _, p := range pods {
		if !e.arrived[model.HolderID(p.UID)] || !p.CreationTimestamp.Time.After(at) {
			continue
		}
		if r, err := dialect.RequestOn(p, e.Levels()); err == nil && r != nil {
			e.core.Arrive(r)
		}
	}
}
