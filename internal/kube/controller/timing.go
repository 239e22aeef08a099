package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// Timing is how long the controller waits: its lease, and the pauses of reconciles that
// failed.
type Timing struct {
	// Lease is how long others wait for a leader that does not renew it; the leader gives
	// up after Renew, and tries every Retry.
	Lease, Renew, Retry    time.Duration
	RetryInitial, RetryMax time.Duration // the pause after a reconcile that failed; it doubles up to RetryMax
}

// DefaultTiming has kube-controller-manager's times for the lease.
func DefaultTiming() Timing {
	return Timing{
		Lease: 15 * time.Second, Renew: 10 * time.Second, Retry: 2 * time.Second,
		RetryInitial: 20 * time.Millisecond, RetryMax: time.Minute,
	}
}

// register adds the flags; their values before are the defaults.
func (t *Timing) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&t.Lease, "leader-elect-lease-duration", t.Lease, "how long others wait for a leader that does not renew its lease")
	f.DurationVar(&t.Renew, "leader-elect-renew-deadline", t.Renew, "how long the leader tries to renew it before it gives up; less than the lease duration")
	f.DurationVar(&t.Retry, "leader-elect-retry-period", t.Retry, "pause between tries; less than the renew deadline")
	f.DurationVar(&t.RetryInitial, "retry-initial", t.RetryInitial, "pause after a reconcile that failed; doubled each time")
	f.DurationVar(&t.RetryMax, "retry-max", t.RetryMax, "the longest such pause")
}

// validate names the flag that is wrong.
func (t *Timing) validate() error {
	for _, d := range []struct {
		flag               string
		value, least, most time.Duration
	}{
		{"leader-elect-lease-duration", t.Lease, time.Second, time.Hour},
		{"leader-elect-renew-deadline", t.Renew, time.Second, time.Hour},
		{"leader-elect-retry-period", t.Retry, 100 * time.Millisecond, time.Hour},
		{"retry-initial", t.RetryInitial, time.Millisecond, time.Hour},
		{"retry-max", t.RetryMax, time.Millisecond, 24 * time.Hour},
	} {
		if d.value < d.least || d.value > d.most {
			return fmt.Errorf("--%s: %s, must be %s to %s", d.flag, d.value, d.least, d.most)
		}
	}
	switch {
	case t.Renew >= t.Lease:
		return fmt.Errorf("--leader-elect-renew-deadline: %s, must be below the lease duration, %s", t.Renew, t.Lease)
	case t.Retry*6/5 >= t.Renew: // as leader election demands: tries are spread by a fifth
		return fmt.Errorf("--leader-elect-retry-period: 1.2 times %s must be below the renew deadline, %s", t.Retry, t.Renew)
	case t.RetryInitial > t.RetryMax:
		return errors.New("--retry-initial: is above --retry-max")
	}
	return nil
}
