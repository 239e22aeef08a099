package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// calls counts calls of the driver by function.
type calls struct {
	mu     sync.Mutex
	counts map[string]*tally
}

type tally struct {
	name          string
	count, failed int
	took          time.Duration
}

func (c *calls) observe(name string, err error, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]*tally{}
	}
	t := c.counts[name]
	if t == nil {
		t = &tally{name: name}
		c.counts[name] = t
	}
	t.count++
	t.took += took
	if err != nil && !errors.Is(err, device.ErrNotSupported) {
		t.failed++
	}
}

// reset returns the counts, the slowest first, and begins anew.
func (c *calls) reset() []*tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*tally
	for _, t := range c.counts {
		out = append(out, t)
	}
	c.counts = nil
	slices.SortFunc(out, func(x, y *tally) int { return cmp.Compare(y.took, x.took) })
	return out
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cost measures what sampling takes, of this process and of the wall clock.
func (p *probe) cost(s *section) error {
	const rounds = 200
	p.calls.reset()
	began, used := time.Now(), processorTime()
	for range rounds {
		if _, err := p.sample(); err != nil {
			return err
		}
	}
	wall, each := time.Since(began)/rounds, (processorTime()-used)/rounds
	byCall := p.calls.reset()
	began, used = time.Now(), processorTime()
	for range 20 {
		if _, err := p.backend.Inventory(p.ctx); err != nil {
			return err
		}
	}
	inventoryWall, inventory := time.Since(began)/20, (processorTime()-used)/20

	s.printf("%d samples and 20 inventories of one GPU, one after the other, on an idle device.", rounds)
	s.table("", "processor time", "wall time")
	s.row("one sample", each.String(), wall.String())
	s.row("one inventory", inventory.String(), inventoryWall.String())
	eight := 8 * each.Seconds()
	s.printf("\nFor 8 GPUs that is %.2f %% of a core at a sample every 10 s and %.1f %% at one every second.", eight/10*100, eight*100)
	s.check(eight/10 < 0.01, "under 1 %% of a core at 8 GPUs and a sample every 10 s")
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		s.printf("- resident memory of this program, the driver's library included: %s", line(strings.ReplaceAll(string(status), "\t", " "), "VmRSS"))
	}
	s.printf("\nThe calls of one sample that take longest, of %d:", total(byCall)/rounds)
	s.table("function", "calls", "mean")
	for _, t := range byCall[:min(8, len(byCall))] {
		s.row("`"+t.name+"`", fmt.Sprint(t.count/rounds), (t.took / time.Duration(t.count)).String())
	}
	return nil
}

func total(list []*tally) int {
	n := 0
	for _, t := range list {
		n += t.count
	}
	return n
}
