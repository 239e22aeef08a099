package controller

import (
	"strings"
	"testing"
)

// TestTimingFlags: flags beyond their bounds, or that contradict each other, are refused by
// name before anything is started.
func TestTimingFlags(t *testing.T) {
	for _, c := range []struct{ flag, want string }{
		{"--leader-elect-lease-duration=5ms", "--leader-elect-lease-duration: 5ms, must be 1s to 1h0m0s"},
		{"--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline: 10s, must be below the lease duration, 10s"},
		{"--leader-elect-renew-deadline=-1s", "--leader-elect-renew-deadline: -1s, must be"},
		{"--leader-elect-retry-period=9s", "--leader-elect-retry-period: 1.2 times 9s"},
		{"--retry-initial=0s", "--retry-initial: 0s, must be"},
		{"--retry-initial=2m", "--retry-initial: is above --retry-max"},
		{"--retry-max=1000h", "--retry-max: 1000h0m0s, must be"},
	} {
		cmd := NewCommand()
		cmd.SilenceErrors = true
		cmd.SetArgs([]string{c.flag, "--kubeconfig=/no/such/file"})
		if err := cmd.Execute(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.flag, err, c.want)
		}
	}
	fine := DefaultTiming()
	if err := fine.validate(); err != nil {
		t.Error(err)
	}
}
