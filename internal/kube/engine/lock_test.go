package engine

import (
	"sync"
	"testing"
	"time"
)

// A question waits for the turn that has the lock and about one more, not for the whole line;
// and every turn comes.
func TestLockAhead(t *testing.T) {
	var l lock
	var order []string // guarded by l
	var wg sync.WaitGroup
	l.Lock()
	for range 20 {
		wg.Go(func() {
			l.Lock()
			defer l.Unlock()
			order = append(order, "turn")
			time.Sleep(2 * time.Millisecond)
		})
	}
	wg.Go(func() {
		unlock := l.LockAhead()
		defer unlock()
		order = append(order, "question")
	})
	for l.ahead.TryLock() { // until the question is there
		l.ahead.Unlock()
		time.Sleep(time.Millisecond)
	}
	for l.line.TryLock() { // and the line is not empty
		l.line.Unlock()
		time.Sleep(time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond)
	l.Unlock()
	wg.Wait()
	for i, what := range order {
		if what == "question" && i > 3 || len(order) != 21 {
			t.Errorf("the question was answered after %d turns: %v", i, order)
		}
	}
}

// Turns and questions exclude each other.
func TestLockExcludes(t *testing.T) {
	var l lock
	inside, most := 0, 0
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 500 {
				unlock := l.Unlock
				if i%2 == 0 {
					unlock = l.LockAhead()
				} else {
					l.Lock()
				}
				inside++
				most = max(most, inside)
				inside--
				unlock()
			}
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d were inside at once", most)
	}
}
