package engine

import (
	"slices"
	"testing"
)

// TestRetryRules: after what a failed attempt is worth another try, attempt by attempt.
func TestRetryRules(t *testing.T) {
	none := func(*Engine) {}
	freed := func(e *Engine) { e.freed++ }
	generation := func(e *Engine) { e.generation++ }
	step := func(n uint64) func(*Engine) { return func(e *Engine) { e.steps += n } }
	for name, tt := range map[string]struct {
		attempt attempt
		no, yes []func(*Engine)
	}{
		"growing":        {growing, []func(*Engine){none, generation, step(1000)}, []func(*Engine){freed}},
		"mending":        {mending, []func(*Engine){none, generation, step(15)}, []func(*Engine){freed, step(16)}},
		"inheriting":     {inheriting, []func(*Engine){none, generation, step(1000)}, []func(*Engine){freed}},
		"evicting":       {evicting, []func(*Engine){none, freed, generation}, []func(*Engine){step(1)}},
		"reserving":      {reserving, []func(*Engine){none, freed, generation, step(15)}, []func(*Engine){step(16)}},
		"reservingEarly": {reservingEarly, []func(*Engine){none, freed, generation, step(15)}, []func(*Engine){step(16)}},
		"reservingAny":   {reservingAny, []func(*Engine){none, freed, step(1000)}, []func(*Engine){generation}},
		"keeping":        {keeping, []func(*Engine){none, freed, generation, step(63)}, []func(*Engine){step(64)}},
	} {
		t.Run(name, func(t *testing.T) {
			if k := (&known{}); !new(Engine).worthTrying(k, tt.attempt) {
				t.Error("the first try is worth it")
			}
			for want, changes := range map[bool][]func(*Engine){false: tt.no, true: tt.yes} {
				for i, change := range changes {
					e, k := &Engine{}, &known{}
					e.failed(k, tt.attempt)
					change(e)
					if got := e.worthTrying(k, tt.attempt); got != want {
						t.Errorf("change %d: worth another try is %v, want %v", i, got, want)
					}
					for other := range attempts {
						if other != tt.attempt && !e.worthTrying(k, other) {
							t.Errorf("the failure counts for attempt %d, too", other)
						}
					}
					if k.succeeded(tt.attempt); !e.worthTrying(k, tt.attempt) {
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
	e, k := &Engine{}, &known{}
	pauses := func(n int) (out []uint64) {
		for range n {
			e.failed(k, evicting)
			began := e.steps
			for !e.worthTrying(k, evicting) {
				e.steps++
			}
			out = append(out, e.steps-began)
		}
		return out
	}
	if got := pauses(9); !slices.Equal(got, []uint64{1, 2, 4, 8, 16, 32, 64, 64, 64}) {
		t.Errorf("%v", got)
	}
	k.succeeded(evicting)
	if got := pauses(2); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("after a success %v", got)
	}
	for a := range attempts {
		if r := retryRules[a]; !r.freed && !r.generation && r.pause == 0 {
			t.Errorf("attempt %d has no rule", a)
		}
	}
}
