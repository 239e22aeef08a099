package query

import (
	"net/http"
	"testing"
	"time"
)

// An answer says what its time went into.
func TestTiming(t *testing.T) {
	spent := &timing{began: time.Now()}
	c := newCaller(t.Context(), nil, nil)
	c.spent = spent
	c.Charge(20*time.Millisecond, 3*time.Millisecond)
	c.Charge(1500*time.Microsecond, time.Millisecond)
	spent.add(&spent.access, 2*time.Millisecond)
	spent.began = spent.began.Add(-time.Hour)
	h := http.Header{}
	spent.tell(h)
	want := "access;dur=2.0, turn;dur=0.0, lock;dur=21.5, held;dur=4.0, total;dur=36000"
	if got := h.Get("Server-Timing"); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("%q, want %q and more", got, want)
	}
}
