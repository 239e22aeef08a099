package memo

import (
	"slices"
	"testing"
)

// TestRetryRules: after what a failed attempt is worth another try, attempt by attempt.
func TestRetryRules(t *testing.T) {
	none := func(*Memo) {}
	room := func(e *Memo) { e.room++ }
	layout := func(e *Memo) { e.layout++ }
	step := func(n uint64) func(*Memo) { return func(e *Memo) { e.steps += n } }
	for name, tt := range map[string]struct {
		attempt Attempt
		no, yes []func(*Memo)
	}{
		"growing":        {Growing, []func(*Memo){none, layout, step(1000)}, []func(*Memo){room}},
		"mending":        {Mending, []func(*Memo){none, layout, step(15)}, []func(*Memo){room, step(16)}},
		"inheriting":     {Inheriting, []func(*Memo){none, layout, step(1000)}, []func(*Memo){room}},
		"evicting":       {Evicting, []func(*Memo){none, room, layout}, []func(*Memo){step(1)}},
		"reserving":      {Reserving, []func(*Memo){none, room, layout, step(15)}, []func(*Memo){step(16)}},
		"reservingEarly": {ReservingEarly, []func(*Memo){none, room, layout, step(15)}, []func(*Memo){step(16)}},
		"reservingAny":   {ReservingAny, []func(*Memo){none, room, step(1000)}, []func(*Memo){layout}},
		"keeping":        {Keeping, []func(*Memo){none, room, layout, step(63)}, []func(*Memo){step(64)}},
	} {
		t.Run(name, func(t *testing.T) {
			if k := (&Gang{}); !new(Memo).WorthTrying(k, tt.attempt) {
				t.Error("the first try is worth it")
			}
			for want, changes := range map[bool][]func(*Memo){false: tt.no, true: tt.yes} {
				for i, change := range changes {
					e, k := &Memo{}, &Gang{}
					e.Failed(k, tt.attempt)
					change(e)
					if got := e.WorthTrying(k, tt.attempt); got != want {
						t.Errorf("change %d: worth another try is %v, want %v", i, got, want)
					}
					for other := range attempts {
						if other != tt.attempt && !e.WorthTrying(k, other) {
							t.Errorf("the failure counts for attempt %d, too", other)
						}
					}
					if k.Succeeded(tt.attempt); !e.WorthTrying(k, tt.attempt) {
						t.Error("a success does not end it")
					}
				}
			}
		})
	}
}

// TestRetryPauses: pauses double with every failure in a row, up to the bound, and begin
// anew after a success.
func TestRetryPauses(t *testing.T) {
	e, k := &Memo{}, &Gang{}
	pauses := func(n int) (out []uint64) {
		for range n {
			e.Failed(k, Evicting)
			began := e.steps
			for !e.WorthTrying(k, Evicting) {
				e.steps++
			}
			out = append(out, e.steps-began)
		}
		return out
	}
	if got := pauses(9); !slices.Equal(got, []uint64{1, 2, 4, 8, 16, 32, 64, 64, 64}) {
		t.Errorf("%v", got)
	}
	k.Succeeded(Evicting)
	if got := pauses(2); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("after a success %v", got)
	}
	for a := range attempts {
		if r := retryRules[a]; !r.onRoom && !r.onLayout && r.pause == 0 {
			t.Errorf("attempt %d has no rule", a)
		}
	}
}
