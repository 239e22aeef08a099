package bench

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// cohort is a set of pods that are created and waited for together: the warm-up
// or the counted pods. Times are offsets from begun, so that a pod costs two
// words and no lock.
type cohort struct {
	name  string
	begun time.Time
	// burst is how many pods, in the order of their numbers, come together: the
	// size of a gang, or 1.
	burst int
	// ganged says that pods that come together are a gang.
	ganged bool
	// created[i] is when the create call of pod i started, written by its creator
	// before the call. bound[i] is when the watch showed its node, written by the
	// watch alone; zero before. Read both only after done is closed or creators
	// and watch have ended.
	created, bound []time.Duration

	// createdCount and boundCount may be read at any time.
	createdCount, boundCount atomic.Int64
	done                     chan struct{}
}

func newCohort(name string, pods int) *cohort {
	return &cohort{
		name:    name,
		burst:   1,
		begun:   time.Now(),
		created: make([]time.Duration, pods),
		bound:   make([]time.Duration, pods),
		done:    make(chan struct{}),
	}
}

func (c *cohort) size() int { return len(c.bound) }

// podName is the name of pod i; indexOf is its inverse.
func (c *cohort) podName(i int) string { return fmt.Sprintf("%s-%06d", c.name, i) }

func (c *cohort) indexOf(podName string) (int, bool) {
	number, ok := strings.CutPrefix(podName, c.name+"-")
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(number)
	return i, err == nil && i >= 0 && i < c.size()
}

func (c *cohort) markCreated(i int) {
	c.created[i] = time.Since(c.begun)
	c.createdCount.Add(1)
}

// markBound notes the first time that pod i was seen with a node; later events
// of the same pod change nothing.
func (c *cohort) markBound(i int) {
	if c.bound[i] != 0 {
		return
	}
	c.bound[i] = max(time.Since(c.begun), 1)
	if int(c.boundCount.Add(1)) == c.size() {
		close(c.done)
	}
}

// timing is the speed of a finished cohort.
type timing struct {
	// bound is the number of bound pods, span the time from the first create call
	// to the last of them.
	bound int
	span  time.Duration
	// arrival is the rate of create calls in pods per second. The last burst is not
	// counted: the time ends when it is due, not after it.
	arrival float64
	latency Latency
	// gangs is the time from the creation of a gang's last member to its last
	// binding, of gangs that are bound whole.
	gangs Latency
}

func (c *cohort) timing() timing {
	var t timing
	var first, lastCreate, lastBound time.Duration
	waits := make([]time.Duration, 0, c.size())
	for i, created := range c.created {
		if i == 0 || created < first {
			first = created
		}
		lastCreate = max(lastCreate, created)
		if c.bound[i] != 0 {
			waits = append(waits, c.bound[i]-created)
			lastBound = max(lastBound, c.bound[i])
		}
	}
	t.bound = len(waits)
	if t.bound > 0 {
		t.span = lastBound - first
	}
	if lastCreate > first {
		t.arrival = float64(c.size()-c.burst) / (lastCreate - first).Seconds()
	}
	t.latency = latencyOf(waits)
	t.gangs = latencyOf(c.gangWaits())
	return t
}
