package local

import (
	"os"
	"strings"
	"time"
)

// Leader is the replica of a scheduler that acquired the lease last and has not lost it, by
// what the replicas log; nil when none has it.
func Leader(replicas ...*Process) (leader *Process) {
	last := ""
	for _, p := range replicas {
		if at := acquired(p.Log()); at > last {
			leader, last = p, at
		}
	}
	return leader
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

// electionArgs are the flags of a replica that leads by leases of a duration, in the
// proportions of the default: 15 s, 10 s, 2 s.
func electionArgs(lease time.Duration) []string {
	return []string{
		"--leader-elect=true", "--leader-elect-lease-duration=" + lease.String(),
		"--leader-elect-renew-deadline=" + (lease * 2 / 3).String(), "--leader-elect-retry-period=" + RetryPeriod(lease).String(),
	}
}

// RetryPeriod is how often a replica tries to acquire or renew a lease of a duration.
func RetryPeriod(lease time.Duration) time.Duration { return lease * 2 / 15 }
