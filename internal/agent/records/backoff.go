package records

import (
	"time"

	"google.golang.org/grpc/backoff"
)

// quickly is how often a local socket is tried: kubelet is back within seconds of its
// restart, and a container may wait for the answer.
func quickly() backoff.Config {
	return backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}
}
