package chaos

import (
	"errors"
	"time"

	"github.com/tangram-dev/tangram/lab/local"
)

// replicas are the scheduler that leads, by what both log, and the other. It waits
// while neither does: a fault is about a leader that works.
func (w *world) replicas() (leader, other string, err error) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		leads := local.Leader(w.Process(schedulerA), w.Process(schedulerB))
		switch {
		case w.able.has(noLeader) || leads == nil:
		case leads.Name() == schedulerA:
			return schedulerA, schedulerB, nil
		default:
			return schedulerB, schedulerA, nil
		}
	}
	return "", "", errors.New("no scheduler has led for a minute")
}
