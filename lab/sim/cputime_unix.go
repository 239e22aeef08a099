//go:build unix

package sim

import (
	"syscall"
	"time"
)

// cpuTime is the processor time this program has used. Unlike a clock it does
// not count the time others took on the same core.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
