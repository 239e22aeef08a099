package query

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// TestBusy: at most so many answers are computed at once, fewer for one caller; who asks
// too much is refused, and others are still served.
func TestBusy(t *testing.T) {
	limits := Limits{Running: 3, RunningEach: 2, Open: 100, OpenEach: 5, Wait: time.Minute, Timeout: time.Minute}
	hold, inside := make(chan struct{}), make(chan string, 100)
	s := serve(t, &gate{}, Options{Limits: limits}, &Question{Method: http.MethodGet, Answer: func(_ context.Context, c Caller, _ *Request) (any, *apiquery.Error) {
		inside <- c.User()
		<-hold
		return "done", nil
	}})
	var wg sync.WaitGroup
	statuses := make(chan int, 100)
	request := func(user string) {
		wg.Go(func() {
			status, _, _ := ask(t, s, "GET", "/query/v1/test", user, nil)
			statuses <- status
		})
	}
	// Accounts of one namespace count as one caller: five of eight get in, two run.
	for i := range 8 {
		request(fmt.Sprintf("system:serviceaccount:greedy:sa-%d", i))
	}
	for range 3 {
		if status := <-statuses; status != http.StatusTooManyRequests {
			t.Errorf("status %d, want 429", status)
		}
	}
	<-inside
	<-inside
	request("alice")
	if who := <-inside; who != "alice" {
		t.Errorf("%s runs, want alice", who)
	}
	select {
	case who := <-inside:
		t.Errorf("%s runs as well", who)
	case <-time.After(20 * time.Millisecond):
	}
	close(hold)
	for range 6 {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("status %d, want 200", status)
		}
	}
	wg.Wait()
}

// TestBusyWait: who waits for too long is refused.
func TestBusyWait(t *testing.T) {
	d := newDoorman(Limits{Running: 1, RunningEach: 1, Open: 10, OpenEach: 10, Wait: 10 * time.Millisecond})
	for range 2 {
		if _, ok := d.enter("bob"); !ok {
			t.Fatal("refused")
		}
	}
	end, ok := d.begin(t.Context(), "bob")
	if !ok {
		t.Fatal("refused")
	}
	if _, ok := d.begin(t.Context(), "bob"); ok {
		t.Error("two run")
	}
	end()
	if end, ok = d.begin(t.Context(), "bob"); !ok {
		t.Error("the turn was not given back")
	}
	end()
}
