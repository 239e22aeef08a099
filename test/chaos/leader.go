package chaos

import (
	"errors"
	"os"
	"strings"
	"time"
)

// replicas are the scheduler that leads, by what both log, and the other. It waits
// while neither does: a fault is about a leader that works.
func (w *world) replicas() (leader, other string, err error) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		a, b := acquired(w.Process(schedulerA).Log()), acquired(w.Process(schedulerB).Log())
		switch {
		case w.able.has(noLeader) || a == b:
		case a > b:
			return schedulerA, schedulerB, nil
		default:
			return schedulerB, schedulerA, nil
		}
	}
	return "", "", errors.New("no scheduler has led for a minute")
}

// acquired is the time stamp of the last line about the lease in a scheduler's log if
// it says that the lease was acquired; empty otherwise. Time stamps compare as text.
func acquired(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	stamp := ""
	for line := range strings.SplitSeq(strings.ToLower(string(data)), "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 2:
		case strings.Contains(line, "attempting to acquire leader lease"):
			stamp = "" // it begins anew: whatever it led, it leads no more
		case strings.Contains(line, "successfully acquired lease"):
			stamp = fields[0][1:] + " " + fields[1] // month and day without the level, and the time
		}
	}
	return stamp
}
