package recovery

import (
	"fmt"
	"time"
)

// schedulerState is when the scheduler's lease was last renewed, by our clock.
type schedulerState struct {
	renewal string
	since   time.Time
	at      time.Time // of the last look
	known   bool
	told    bool
}

// SchedulerSilentFor is for how long a lease may not be renewed before that is reported:
// twice the time after which another replica takes it over.
const SchedulerSilentFor = 30 * time.Second

// checkScheduler reports a scheduler whose lease is not renewed. Nothing else can be done
// from here: its pods are restarted by kubelet, and a second replica takes over.
func (s *step) checkScheduler() {
	c := &s.scheduler
	if s.fleet.Scheduler.Known && (!c.known || c.renewal != s.fleet.Scheduler.Renewal) {
		if c.told {
			s.plan.Notices = append(s.plan.Notices, Notice{Reason: "SchedulerBack", Text: "the scheduler's lease is renewed again"})
		}
		*c = schedulerState{renewal: s.fleet.Scheduler.Renewal, since: s.now, known: true, at: c.at}
	}
	if c.known {
		s.plan.SchedulerSilence = s.now.Sub(c.since)
	}
	if !due(s.now, &c.at, s.c.SchedulerInterval) {
		return
	}
	if c.known && !c.told && s.plan.SchedulerSilence >= max(SchedulerSilentFor, s.c.SchedulerInterval) {
		c.told = true
		s.plan.Notices = append(s.plan.Notices, Notice{Reason: "SchedulerSilent",
			Text: fmt.Sprintf("the scheduler's lease has not been renewed for %s: no pod is placed", s.plan.SchedulerSilence.Round(time.Second))})
	}
}
