package engine

import (
	"sync"
	"testing"
	"time"

	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/internal/kube/answer"
	"github.com/tangram-dev/tangram/internal/kube/observe"
)

// TestHours: GPU hours run from Binding to end, for the leader only, and a scrape shows
// the state without draining events.
func TestHours(t *testing.T) {
	s := newSetup(t, 2)
	pods := s.runs("gang", 2, 3)
	if u := s.State().Usage; len(u) != 1 { // Step was called: this process leads
		t.Fatalf("usage %v", u)
	}
	begin := s.State().Usage[0].Amount
	s.now = s.now.Add(time.Hour)
	state := s.State()
	u := state.Usage[0]
	if got := u.Amount - begin; got != 6*1000*time.Hour.Milliseconds() {
		t.Errorf("6 GPUs used %d in an hour", got)
	}
	if u.Namespace != pods[0].Namespace || u.Queue != "default" || u.Model != measure.UnknownModel {
		t.Errorf("charged to %+v", u.Key)
	}
	if state.At != s.now {
		t.Errorf("as of %s", state.At)
	}
	allocated := int64(0)
	for _, f := range state.Census.Fleet {
		allocated += f.Milli[coreanswer.Allocated]
	}
	if allocated != 6000 {
		t.Errorf("%d allocated", allocated)
	}
	for _, p := range pods {
		s.deletePod(p.Name)
	}
	s.Step()
	at := s.now
	s.now = s.now.Add(time.Hour)
	if got := s.State().Usage[0].Amount; got != u.Amount {
		t.Errorf("used %d more after the end at %s", got-u.Amount, at)
	}
	// A second scrape within two seconds costs nothing.
	first := s.State()
	s.now = s.now.Add(time.Second)
	if s.State().At != first.At {
		t.Error("counted again after a second")
	}
	s.now = s.now.Add(time.Second)
	if s.State().At == first.At {
		t.Error("not counted again after two seconds")
	}
}

// A process that follows shows no usage.
func TestFollowerCountsNothing(t *testing.T) {
	s := newSetup(t, 1)
	s.Sync()
	state := s.State()
	if state.Usage != nil {
		t.Errorf("usage %v", state.Usage)
	}
	if q := state.Census.Queues; len(q) == 0 || q[0].Share != 8000 {
		t.Errorf("queues %+v, want all 8 GPUs at the root", q)
	}
}

// A scrape may come at any time: for the race detector.
func TestStateConcurrently(t *testing.T) {
	s := newSetup(t, 2)
	done := make(chan struct{})
	var scrapes sync.WaitGroup
	for range 2 {
		scrapes.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					s.Engine.Answers(answer.Ages{}).State() // each counts anew
				}
			}
		})
	}
	for range 20 {
		pods := s.runs("gang", 2, 3)
		s.Observe(func(o *observe.Observer, now time.Time) {
			o.SetIdle(5, time.Minute)
			o.SetPrices(measure.Prices{}, now)
		})
		for _, p := range pods {
			s.deletePod(p.Name)
		}
		s.Step()
	}
	close(done)
	scrapes.Wait()
}
