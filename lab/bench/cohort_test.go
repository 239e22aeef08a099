package bench

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestCohortNames(t *testing.T) {
	c := newCohort("pod", 3)
	for i := range c.size() {
		if got, ok := c.indexOf(c.podName(i)); !ok || got != i {
			t.Errorf("pod %d comes back as %d, %v", i, got, ok)
		}
	}
	for _, name := range []string{"", "pod", "pod-", "pod-x", "pod--1", "pod-000003", "warm-000001"} {
		if i, ok := c.indexOf(name); ok {
			t.Errorf("%q is pod %d", name, i)
		}
	}
}

func TestCohortTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCohort("pod", 3)
		time.Sleep(time.Hour) // before the first create nothing counts
		c.markCreated(0)
		time.Sleep(time.Second)
		c.markCreated(2)
		c.markBound(0)
		time.Sleep(time.Second)
		c.markCreated(1)
		c.markBound(2)
		time.Sleep(2 * time.Second)
		c.markBound(0) // a later event of a bound pod
		select {
		case <-c.done:
			t.Fatal("done with a pod unbound")
		default:
		}
		if got := c.timing(); got.bound != 2 || got.span != 2*time.Second {
			t.Errorf("two of three bound: %+v", got)
		}
		c.markBound(1)
		<-c.done
		want := timing{
			bound: 3, span: 4 * time.Second, arrival: 1,
			latency: Latency{P50: 1000, P95: 2000, P99: 2000, Max: 2000},
		}
		if got := c.timing(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestCohortThatNeverStarted(t *testing.T) {
	if got := newCohort("pod", 2).timing(); got != (timing{}) {
		t.Errorf("got %+v", got)
	}
}
