package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tangram-dev/tangram/test/gpu/report"
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
	if err != nil {
		t.failed++
	}
}

// reset returns the counts, the slowest first, and begins anew.
func (c *calls) reset() []*tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*tally
	for _, t := range c.counts {
		if t.name != "nvmlEventSetWait_v2" { // Watch's, which sleeps in it
			out = append(out, t)
		}
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

// cost measures what sampling and discovery take.
func (p *probe) cost(s *report.Section) error {
	s.Printf("One after the other, on an idle device.")
	share, err := p.measure(s, 200)
	if err != nil {
		return err
	}
	s.Check(share < 0.01, "under 1 %% of a core at 8 GPUs and a sample every 10 s")
	const rounds = 20
	began, used := time.Now(), processorTime()
	for range rounds {
		if _, err := p.backend.Inventory(p.ctx); err != nil {
			return err
		}
	}
	s.Printf("\nOne inventory: %s of a processor, %s by the clock.", (processorTime()-used)/rounds, time.Since(began)/rounds)
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		s.Printf("Resident memory of this program, the driver's library included: %s.", line(strings.ReplaceAll(string(status), "\t", " "), "VmRSS"))
	}
	return nil
}

// measure takes samples and says what each took, of this process and of the wall clock. It
// returns the share of a core at 8 GPUs and a sample every 10 s.
func (p *probe) measure(s *report.Section, rounds int) (float64, error) {
	p.calls.reset()
	began, used := time.Now(), processorTime()
	for range rounds {
		if _, err := p.sample(); err != nil {
			return 0, err
		}
	}
	count := time.Duration(rounds)
	wall, each := time.Since(began)/count, (processorTime()-used)/count
	byCall := p.calls.reset()
	eight := 8 * each.Seconds()
	s.Printf("\nOne sample, of %d: %s of a processor, %s by the clock. For 8 GPUs that is %.2f %% of a core", rounds, each, wall, eight/10*100)
	s.Printf("at a sample every 10 s and %.1f %% at one every second.", eight*100)
	s.Printf("\nThe calls that take longest, of %d in a sample:", total(byCall)/rounds)
	s.Table("function", "calls in a sample", "mean", "answered with an error")
	var lacking []string
	for i, t := range byCall {
		if i < 6 {
			s.Row("`"+t.name+"`", fmt.Sprintf("%.1f", float64(t.count)/float64(rounds)), (t.took / time.Duration(t.count)).Round(100*time.Nanosecond).String(), fmt.Sprint(t.failed))
		}
		if t.failed == t.count {
			lacking = append(lacking, "`"+t.name+"`")
		}
	}
	if len(lacking) > 0 {
		s.Printf("\nNever answered: %s.", strings.Join(lacking, ", "))
	}
	s.Printf("")
	return eight / 10, nil
}

func total(list []*tally) int {
	n := 0
	for _, t := range list {
		n += t.count
	}
	return n
}
