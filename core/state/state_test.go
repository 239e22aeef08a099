package state_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/state"
)

func drawAmounts(t *rapid.T, least int64) map[arbiter.Resource]int64 {
	return rapid.MapOfN(rapid.SampledFrom([]arbiter.Resource{"cpu", "memory", "gpu/nvidia", "model/a100"}), rapid.Int64Range(least, arbiter.MaxAmount), 1, 4).Draw(t, "amounts")
}

// draw is any valid state within the bounds.
func draw(t *rapid.T) *state.State {
	s := &state.State{At: rapid.Int64Range(0, 1<<62).Draw(t, "at")}
	s.Learned.Queues.At = rapid.Int64Range(0, 1<<62).Draw(t, "elapsed")
	for i := range rapid.IntRange(0, 5).Draw(t, "queues") {
		q := arbiter.SavedQueue{Queue: fmt.Sprint("q", i), Parent: rapid.String().Draw(t, "parent"), Owed: drawAmounts(t, -arbiter.MaxAmount)}
		if rapid.Bool().Draw(t, "competes") {
			q.Part, q.Held = drawAmounts(t, 0), drawAmounts(t, 0)
		}
		if clock := rapid.Int64Range(0, 1<<40).Draw(t, "clock"); clock > 0 {
			q.Turns.Clock, q.Turns.Forgotten = clock, rapid.Int64Range(0, clock).Draw(t, "forgotten")
			for u := range rapid.IntRange(0, 4).Draw(t, "users") {
				q.Turns.Users = append(q.Turns.Users, arbiter.SavedTurn{User: fmt.Sprint(u, rapid.String().Draw(t, "user")), Served: rapid.Int64Range(0, clock).Draw(t, "served")})
			}
		}
		s.Learned.Queues.Queues = append(s.Learned.Queues.Queues, q)
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "runtimes") {
		s.Runtimes = append(s.Runtimes, arbiter.SavedRuntime{
			Key:  arbiter.RuntimeKey{Owner: fmt.Sprint(i), Shape: rapid.String().Draw(t, "shape")},
			Mean: time.Duration(rapid.Int64Range(0, int64(arbiter.MaxRuntime)).Draw(t, "mean")), Runs: rapid.Int64Range(1, 4).Draw(t, "runs"),
		})
	}
	m := &s.Learned.Mix
	m.Arrivals, m.Next = rapid.Int64Range(0, pack.MaxCount).Draw(t, "arrivals"), rapid.Int64Range(0, pack.MaxCount).Draw(t, "next")
	for i := range rapid.IntRange(0, 63).Draw(t, "models") {
		m.Models = append(m.Models, planner.ModelName{Vendor: model.NVIDIA, Model: fmt.Sprint("m", i), Memory: model.MiB(i)})
	}
	for range rapid.IntRange(0, 5).Draw(t, "classes") {
		c := pack.SavedClass{Count: rapid.Int64Range(0, pack.MaxCount).Draw(t, "count"), Built: rapid.Int64Range(0, pack.MaxCount).Draw(t, "built")}
		c.Class = pack.Class{GPUs: 1, Milli: rapid.Uint16Range(1, 1000).Draw(t, "milli"), CPU: rapid.Int64Range(0, pack.MaxCount).Draw(t, "cpu")}
		c.Class.Models = pack.ModelSet(rapid.Uint64Range(0, 1<<len(m.Models)-1).Draw(t, "set"))
		m.Classes = append(m.Classes, c)
	}
	return s
}

// TestRoundTrip: within the bounds a state that is written and read is the same, to the bit.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		text, left, err := s.Encode()
		if err != nil || left != (state.Left{}) {
			t.Fatal(left, err)
		}
		again, err := state.Decode(text)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if !reflect.DeepEqual(s, again) {
			t.Fatalf("wrote %+v\nread  %+v\n%s", s, again, text)
		}
	})
}

// huge has more of everything than any cluster, with names that JSON makes longer.
func huge() *state.State {
	long := strings.Repeat("<\x01é", 100)
	s := &state.State{}
	for i := range 5000 {
		q := arbiter.SavedQueue{Queue: fmt.Sprint(i, long), Owed: map[arbiter.Resource]int64{"gpu/nvidia": int64(5000 - i)}}
		q.Turns.Clock = 10_000
		for u := range 20 {
			q.Turns.Users = append(q.Turns.Users, arbiter.SavedTurn{User: fmt.Sprint(u, long), Served: int64(10_000 - u)})
		}
		s.Learned.Queues.Queues = append(s.Learned.Queues.Queues, q)
	}
	for i := range 40_000 {
		s.Runtimes = append(s.Runtimes, arbiter.SavedRuntime{Key: arbiter.RuntimeKey{Owner: fmt.Sprint(i % 100), Shape: fmt.Sprint(i, long)}, Mean: time.Hour, Runs: 1})
	}
	for i := range 63 {
		s.Learned.Mix.Models = append(s.Learned.Mix.Models, planner.ModelName{Model: fmt.Sprint(i, strings.Repeat("x", 100_000))})
	}
	s.Learned.Mix.Next = 1
	for i := range 10_000 {
		s.Learned.Mix.Classes = append(s.Learned.Mix.Classes, pack.SavedClass{Class: pack.Class{GPUs: 1, Milli: 1000, CPU: int64(i)}, Count: int64(10_000 - i)})
	}
	return s
}

// TestBounded: whatever was learned, the text is below MaxBytes, can be read, and has the
// most telling entries of every part.
func TestBounded(t *testing.T) {
	if state.MaxBytes >= 256<<10 {
		t.Errorf("MaxBytes is %d", state.MaxBytes)
	}
	full := huge()
	alone := func(change func(*state.State)) *state.State {
		s := &state.State{}
		change(s)
		return s
	}
	for name, s := range map[string]*state.State{
		"all":      full,
		"queues":   alone(func(s *state.State) { s.Learned.Queues = full.Learned.Queues }),
		"runtimes": alone(func(s *state.State) { s.Runtimes = full.Runtimes }),
		"mix":      alone(func(s *state.State) { s.Learned.Mix = full.Learned.Mix }),
		"one queue of many users": alone(func(s *state.State) {
			q := arbiter.SavedQueue{Queue: "q", Turns: arbiter.SavedTurns{Clock: 1 << 20}}
			for i := range 1 << 17 {
				q.Turns.Users = append(q.Turns.Users, arbiter.SavedTurn{User: fmt.Sprint("u", i), Served: int64(1<<20 - i)})
			}
			s.Learned.Queues.Queues = []arbiter.SavedQueue{q}
		}),
		"one endless name": alone(func(s *state.State) {
			s.Runtimes = []arbiter.SavedRuntime{{Key: arbiter.RuntimeKey{Owner: strings.Repeat("x", 1<<20)}, Runs: 1}, {Key: arbiter.RuntimeKey{Owner: "kept"}, Runs: 1}}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			text, left, err := s.Encode()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes, left out %+v", len(text), left)
			if len(text) > state.MaxBytes || left == (state.Left{}) {
				t.Errorf("%d bytes, left out %+v", len(text), left)
			}
			again, err := state.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			if q := again.Learned.Queues.Queues; len(q) > 0 && q[0].Queue != s.Learned.Queues.Queues[0].Queue {
				t.Errorf("the largest balance is not kept")
			}
			if name == "all" && (len(again.Runtimes) == 0 || len(again.Learned.Mix.Classes) == 0) {
				t.Error("one part crowds out another")
			}
			if name == "one endless name" && (len(again.Runtimes) != 1 || again.Runtimes[0].Key.Owner != "kept") {
				t.Errorf("%+v", again.Runtimes)
			}
			if name == "one queue of many users" {
				// Users that are forgotten start no earlier than they would have.
				turns := again.Learned.Queues.Queues[0].Turns
				if last := turns.Users[len(turns.Users)-1]; turns.Forgotten != last.Served-1 {
					t.Errorf("users to turn %d are kept, others start at %d", last.Served, turns.Forgotten)
				}
			}
		})
	}
}

// TestHostile: text that a scheduler cannot have written is refused, and the error names
// the field.
func TestHostile(t *testing.T) {
	queue := func(q string) string { return `{"version":1,"queues":[` + q + `]}` }
	class := func(c string) string { return `{"version":1,"mix":{"next":1,"classes":[` + c + `]}}` }
	for _, c := range []struct{ name, text, want string }{
		{"empty", ``, "unexpected end"},
		{"no JSON", `hello`, "invalid character"},
		{"no object", `[1]`, "array"},
		{"no version", `{}`, "version: 0"},
		{"negative version", `{"version":-1}`, "version: -1"},
		{"newer", `{"version":2,"anything":{}}`, "newer version"},
		{"unknown field", `{"version":1,"surprise":1}`, "surprise"},
		{"two states", `{"version":1}{"version":1}`, "after top-level value"},
		{"too long", `{"version":1,"runtimes":[` + strings.Repeat(" ", state.MaxBytes) + `]}`, "at most"},
		{"negative time", `{"version":1,"at":-5}`, "at: is negative"},
		{"NaN", queue(`{"queue":"a","owed":{"gpu":NaN}}`), "invalid character 'N'"},
		{"1e300", queue(`{"queue":"a","owed":{"gpu":1e300}}`), "owed"},
		{"a fraction", queue(`{"queue":"a","owed":{"gpu":0.5}}`), "owed"},
		{"a text", queue(`{"queue":"a","owed":{"gpu":"1"}}`), "owed"},
		{"owed too much", queue(`{"queue":"a","owed":{"gpu":4611686018427387904}}`), "queues[0].owed[gpu]"},
		{"owes too much", queue(`{"queue":"a","owed":{"gpu":-4611686018427387904}}`), "queues[0].owed[gpu]"},
		{"negative part", queue(`{"queue":"a","part":{"gpu":-1}}`), "queues[0].part[gpu]: -1 is negative"},
		{"huge use", queue(`{"queue":"a","held":{"gpu":9223372036854775807}}`), "queues[0].held[gpu]"},
		{"queue without a name", queue(`{"queue":""}`), "queues[0].queue"},
		{"a queue twice", queue(`{"queue":"a"},{"queue":"a"}`), "queues[1].queue"},
		{"negative clock", queue(`{"queue":"a","turns":{"clock":-1}}`), "queues[0].turns.clock"},
		{"served in the future", queue(`{"queue":"a","turns":{"clock":1,"users":[{"user":"u","served":2}]}}`), "queues[0].turns.users[0].served"},
		{"forgotten in the future", queue(`{"queue":"a","turns":{"clock":1,"forgotten":2}}`), "queues[0].turns.forgotten"},
		{"a million queues", queue(strings.Repeat(`{"queue":"a"},`, 1_000_000) + `{"queue":"a"}`), "at most"},
		{"negative runtime", `{"version":1,"runtimes":[{"owner":"a","mean":-1,"runs":1}]}`, "runtimes[0].mean"},
		{"endless runtime", `{"version":1,"runtimes":[{"owner":"a","mean":9223372036854775807,"runs":1}]}`, "runtimes[0].mean"},
		{"no runs", `{"version":1,"runtimes":[{"owner":"a","mean":1}]}`, "runtimes[0].runs"},
		{"runtime without owner", `{"version":1,"runtimes":[{"mean":1,"runs":1}]}`, "runtimes[0].owner"},
		{"negative arrivals", `{"version":1,"mix":{"arrivals":-1}}`, "mix.arrivals"},
		{"negative next", `{"version":1,"mix":{"next":-1}}`, "mix.next"},
		{"300 GPUs", class(`{"gpus":300,"milli":1000,"count":1}`), "gpus"},
		{"17 GPUs", class(`{"gpus":17,"milli":1000,"count":1}`), "mix.classes[0]"},
		{"too much of a GPU", class(`{"gpus":1,"milli":1001,"count":1}`), "mix.classes[0]"},
		{"negative CPU", class(`{"gpus":1,"milli":1000,"cpu":-1,"count":1}`), "mix.classes[0]"},
		{"endless CPU", class(`{"gpus":1,"milli":1000,"cpu":9223372036854775807,"count":1}`), "mix.classes[0]"},
		{"negative count", class(`{"gpus":1,"milli":1000,"count":-1}`), "mix.classes[0].count"},
		{"huge count", class(`{"gpus":1,"milli":1000,"count":9223372036854775807}`), "mix.classes[0].count"},
		{"unknown model", class(`{"gpus":1,"milli":1000,"count":1,"models":8}`), "mix.classes[0].models"},
		{"negative memory", `{"version":1,"mix":{"models":[{"memory":-1}]}}`, "mix.models[0].memory"},
		{"too many models", `{"version":1,"mix":{"models":[` + strings.Repeat(`{},`, 70) + `{}]}}`, "mix.models"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := state.Decode([]byte(c.text))
			if err == nil || s != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v; want an error with %q", s, err, c.want)
			}
			if c.name == "newer" && !errors.Is(err, state.ErrNewer) {
				t.Errorf("%v is not ErrNewer", err)
			}
		})
	}
}

// FuzzDecode: no text makes a tree or a planner crash.
func FuzzDecode(f *testing.F) {
	text, _, err := huge().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text[:2000])
	f.Add([]byte(`{"version":1,"at":1,"elapsed":9223372036854775807,"queues":[{"queue":"default","parent":"root","owed":{"cpu":1152921504606846976},"part":{"cpu":1},"held":{"cpu":5}}],"runtimes":[],"mix":{"arrivals":60,"next":100,"classes":[{"gpus":1,"milli":500,"cpu":1,"memory":1,"count":60000,"built":60000}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := state.Decode(text)
		if err != nil {
			return
		}
		if _, _, err := s.Encode(); err != nil {
			t.Fatal(err)
		}
		e := newEngine(t)
		e.Apply(1000, engine.Restored{Learned: s.Learned})
		e.Step(2000)
		e.Step(1 << 62)
	})
}

func newEngine(t *testing.T) *engine.Engine {
	t.Helper()
	l, p, tree := parts(t)
	return engine.New(l, p, tree, engine.DefaultOptions())
}
