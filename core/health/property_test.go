package health

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// input is an event or a sample, some time after the one before.
type input struct {
	After  time.Duration
	Event  *Event
	Sample *Sample
}

func (in input) feed(d *Device, now time.Time) {
	switch {
	case in.Event != nil:
		d.Event(now, *in.Event)
	case in.Sample != nil:
		d.Sample(now, *in.Sample)
	default:
		d.Tick(now)
	}
}

func genEvent(kinds ...EventKind) *rapid.Generator[*Event] {
	return rapid.Custom(func(t *rapid.T) *Event {
		return &Event{
			Kind:    rapid.SampledFrom(kinds).Draw(t, "kind"),
			XID:     rapid.IntRange(0, 180).Draw(t, "xid"),
			Tenants: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 0, 3).Draw(t, "tenants"),
			Verdict: rapid.SampledFrom([]Verdict{VerdictUnknown, VerdictNone, VerdictReset, VerdictReboot, VerdictDrainP2P, VerdictDrainReset, VerdictRecoverIMEX, "NEW"}).Draw(t, "verdict"),
		}
	})
}

func anyEvent() *rapid.Generator[*Event] {
	return genEvent(XIDEvent, MemoryEvent, VerdictEvent, LostEvent, UnwatchedEvent, WatchedEvent, ResetEvent, RebootEvent)
}

func genSample() *rapid.Generator[*Sample] {
	tri := rapid.SampledFrom([]int{Unknown, 0, 0, 0, 1})
	return rapid.Custom(func(t *rapid.T) *Sample {
		return &Sample{
			Silent:      rapid.IntRange(0, 9).Draw(t, "silent") == 0,
			Lost:        rapid.IntRange(0, 19).Draw(t, "lost") == 0,
			Verdict:     rapid.SampledFrom([]Verdict{VerdictUnknown, VerdictNone, VerdictNone, VerdictNone, VerdictReset, VerdictReboot}).Draw(t, "verdict"),
			Temperature: rapid.SampledFrom([]int{Unknown, 40, 84, 85, 89, 90, 120}).Draw(t, "temperature"), HardwareThrottle: tri.Draw(t, "throttle"),
			RemapPending: tri.Draw(t, "pending"), RemapFailed: tri.Draw(t, "failed"), RetiredPending: tri.Draw(t, "retired"),
			Uncorrected: int64(rapid.IntRange(-1, 3).Draw(t, "uncorrected")), Energy: int64(rapid.IntRange(-1, 100).Draw(t, "energy")),
			Links: rapid.IntRange(-1, 2).Draw(t, "links"), Lanes: rapid.SampledFrom([]int{Unknown, 0, 8, 16}).Draw(t, "lanes"),
			MaxLanes: rapid.SampledFrom([]int{Unknown, 16}).Draw(t, "most"),
		}
	})
}

func genInput() *rapid.Generator[input] {
	return rapid.Custom(func(t *rapid.T) input {
		in := input{After: time.Duration(rapid.SampledFrom([]int{-10, 0, 1, 5, 30, 60, 300, 600, 1800, 7200}).Draw(t, "after")) * time.Second}
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			in.Event = anyEvent().Draw(t, "event")
		case 1, 2:
			in.Sample = genSample().Draw(t, "sample")
		}
		return in
	})
}

// TestDeterministic: the same inputs give the same memory.
func TestDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, p := Defaults(), Defaults()
		a, b := New(&o), New(&p)
		now := start
		for _, in := range rapid.SliceOf(genInput()).Draw(t, "inputs") {
			now = now.Add(in.After)
			in.feed(a, now)
			in.feed(b, now)
			if diff := cmp.Diff(a.Saved(), b.Saved()); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// TestIgnoredChangesNothing: errors of class IGNORE leave no trace at all.
func TestIgnoredChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Defaults()
		with, without := New(&o), New(&o)
		now := start
		for _, in := range rapid.SliceOf(genInput()).Draw(t, "inputs") {
			now = now.Add(max(in.After, 0))
			in.feed(with, now)
			in.feed(without, now)
			with.Event(now, Event{Kind: XIDEvent, XID: rapid.SampledFrom(codesOf[Ignore]).Draw(t, "ignored"), Tenants: []string{"a"}})
			if diff := cmp.Diff(without.Saved(), with.Saved()); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// TestFailedStays: a device leaves Failed only by a reboot, or when nothing pointed to
// failure for the shortest quiet time of a failure. The evidence is kept here by the
// plainest means, not by the causes that the machine keeps.
func TestFailedStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Defaults()
		d := New(&o)
		now := start
		var evidence, silent time.Time
		rebooted := false
		for _, in := range rapid.SliceOfN(genInput(), 1, 80).Draw(t, "inputs") {
			before := d.Status()
			now = now.Add(max(in.After, 0))
			in.feed(d, now)
			if e := in.Event; e != nil {
				switch {
				case e.Kind == RebootEvent:
					rebooted, silent = true, time.Time{}
				case e.Kind == LostEvent, e.Kind == XIDEvent && o.Table.Class(e.XID) == RebootClass, e.Kind == VerdictEvent && e.Verdict == VerdictReboot:
					evidence, rebooted = now, false
				}
			}
			if m := in.Sample; m != nil {
				switch {
				case m.Silent && silent.IsZero():
					silent = now
				case !m.Silent:
					silent = time.Time{}
				}
				if !m.Silent && (m.Lost || m.RemapFailed == 1 || m.Verdict == VerdictReboot) {
					evidence, rebooted = now, false
				}
			}
			if !silent.IsZero() && now.Sub(silent) >= o.FailedFor {
				evidence, rebooted = now, false
			}
			after := d.Status()
			if before.State == Failed && after.State < Failed && !rebooted && now.Sub(evidence) < 10*time.Minute {
				t.Fatalf("left Failed %s after the last evidence: %+v, then %+v", now.Sub(evidence), before, after)
			}
		}
	})
}

// TestSeverityNeverFallsWhileTheCauseLasts: the sample just taken shows a cause, so the
// state is at least that of the cause; and it is so until a sample shows the opposite.
func TestSeverityNeverFallsWhileTheCauseLasts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Defaults()
		d := New(&o)
		now := start
		var failed, pending bool // as last shown
		for _, in := range rapid.SliceOfN(genInput(), 1, 80).Draw(t, "inputs") {
			now = now.Add(max(in.After, 0))
			in.feed(d, now)
			if m := in.Sample; m != nil && !m.Silent && !m.Lost {
				if m.RemapFailed != Unknown {
					failed = m.RemapFailed == 1
				}
				if m.RemapPending != Unknown {
					pending = m.RemapPending == 1
				}
			}
			if in.Event != nil && in.Event.Kind == RebootEvent {
				failed, pending = false, false // must be shown anew
			}
			got := d.Status().State
			if failed && got < Failed || pending && got < Degraded {
				t.Fatalf("state %s, row remap failed %v, pending %v", got, failed, pending)
			}
		}
	})
}

// TestFewTenantsTakeNothing: whatever two tenants provoke, beside whomever, the device
// stays healthy.
func TestFewTenantsTakeNothing(t *testing.T) {
	provocable := slices.Concat(codesOf[Application], codesOf[AskDriver])
	rapid.Check(t, func(t *rapid.T) {
		o := Defaults()
		d := New(&o)
		now := start
		for range rapid.IntRange(1, 100).Draw(t, "errors") {
			now = now.Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "after")) * time.Second)
			tenants := append(rapid.SliceOfN(rapid.StringN(1, 3, 3), 0, 5).Draw(t, "others"), rapid.SampledFrom([]string{"evil", "twin"}).Draw(t, "who"))
			d.Event(now, Event{Kind: XIDEvent, XID: rapid.SampledFrom(provocable).Draw(t, "xid"), Tenants: tenants})
			m := good()
			m.Verdict = rapid.SampledFrom([]Verdict{VerdictNone, VerdictUnknown}).Draw(t, "verdict")
			d.Sample(now, m)
			if s := d.Status(); s.State != Healthy {
				t.Fatalf("%+v", s)
			}
		}
	})
}

// TestApplicationErrorsCostLittle: application errors of any tenants keep a device from
// pods for one quiet time in every window at most.
func TestApplicationErrorsCostLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Defaults()
		d := New(&o)
		now := start
		var began time.Time
		for range rapid.IntRange(1, 200).Draw(t, "errors") {
			was := d.Status().State
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "after")) * time.Second)
			d.Event(now, Event{Kind: XIDEvent, XID: 31, Tenants: []string{rapid.StringN(1, 2, 2).Draw(t, "tenant")}})
			s := d.Status()
			switch {
			case s.State > Suspect:
				t.Fatalf("%+v", s)
			case was == Healthy && s.State == Suspect:
				if !began.IsZero() && now.Sub(began) < o.BlameWindow {
					t.Fatalf("suspect again after %s", now.Sub(began))
				}
				began = now
			case s.State == Suspect && now.Sub(began) >= 5*time.Minute:
				t.Fatalf("still suspect after %s", now.Sub(began))
			}
		}
	})
}

// TestBlameAgainstBruteForce compares the search with an enumeration of all groups.
func TestBlameAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e", "f"}
		var errors []ApplicationError
		for range rapid.IntRange(0, 8).Draw(t, "errors") {
			errors = append(errors, ApplicationError{Tenants: slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.SampledFrom(names), 1, 3).Draw(t, "tenants"))))})
		}
		n := rapid.IntRange(0, 3).Draw(t, "n")
		want := false
		for group := range 1 << len(names) {
			size, all := 0, true
			for i := range names {
				size += group >> i & 1
			}
			for _, e := range errors {
				all = all && slices.ContainsFunc(e.Tenants, func(tenant string) bool { return group>>slices.Index(names, tenant)&1 == 1 })
			}
			want = want || all && size <= n
		}
		if got := explains(errors, n); got != want {
			t.Fatalf("%v by %d tenants: got %v, want %v", errors, n, got, want)
		}
	})
}

// TestEverythingPasses: after a reboot and good samples every device is healthy, whatever
// happened and also when it was saved and restored meanwhile; and without a reboot, when
// the driver says that nothing is needed, after the longest quiet time.
func TestEverythingPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Defaults()
		d := New(&o)
		now := start
		for _, in := range rapid.SliceOfN(genInput(), 1, 60).Draw(t, "inputs") {
			now = now.Add(max(in.After, 0))
			in.feed(d, now)
		}
		if rapid.Bool().Draw(t, "restart") {
			text, err := json.Marshal(d.Saved())
			if err != nil {
				t.Fatal(err)
			}
			var s Saved
			if err := json.Unmarshal(text, &s); err != nil {
				t.Fatal(err)
			}
			before := d.Status()
			d = Restore(&o, s, now)
			if got := d.Status(); got.State != before.State || got.Code != before.Code || !got.Since.Equal(before.Since) {
				t.Fatalf("restored %+v, saved %+v", got, before)
			}
		}
		d.Event(now, Event{Kind: WatchedEvent})
		if rapid.Bool().Draw(t, "reboot") {
			d.Event(now, Event{Kind: RebootEvent})
			d.Sample(now, good())
		} else {
			d.Sample(now, good())
			for range 500 {
				now = now.Add(time.Minute)
				d.Sample(now, good())
			}
		}
		if s := d.Status(); s.State != Healthy && s.Code != ApplicationErrors {
			t.Fatalf("%+v", s)
		}
	})
}

// TestRestoreOfAnything: a damaged file never crashes, and costs at most a state.
func TestRestoreOfAnything(t *testing.T) {
	times := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "unix"), 0)
	})
	codes := rapid.SampledFrom(append(Codes(), "", "Nonsense"))
	rapid.Check(t, func(t *rapid.T) {
		s := Saved{Now: times.Draw(t, "now"), State: State(rapid.Int().Draw(t, "state")), Since: times.Draw(t, "since"),
			MostLinks: rapid.IntRange(-5, 18).Draw(t, "links"), LastUncorrected: rapid.Int64().Draw(t, "uncorrected"), LastEnergy: rapid.Int64().Draw(t, "energy"),
			Verdict: "WHAT", BlamelessUntil: times.Draw(t, "blameless"), Timers: Timers{Hot: times.Draw(t, "hot"), Unwatched: times.Draw(t, "unwatched")}}
		for range rapid.IntRange(0, 30).Draw(t, "causes") {
			s.Causes = append(s.Causes, Cause{Code: codes.Draw(t, "code"), State: State(rapid.IntRange(-3, 9).Draw(t, "state")),
				Gone: times.Draw(t, "gone"), Quiet: time.Duration(rapid.Int64().Draw(t, "quiet"))})
			s.Flaps = append(s.Flaps, Flap{Code: codes.Draw(t, "code"), Times: rapid.Int().Draw(t, "times"), Ended: times.Draw(t, "ended")})
			s.Errors = append(s.Errors, ApplicationError{At: times.Draw(t, "at"), Tenants: rapid.SliceOfN(rapid.String(), 0, 12).Draw(t, "tenants")})
		}
		o := Defaults()
		d := Restore(&o, s, start)
		now := start
		for _, in := range rapid.SliceOfN(genInput(), 0, 20).Draw(t, "inputs") {
			now = now.Add(max(in.After, 0))
			in.feed(d, now)
		}
		d.Event(now, Event{Kind: RebootEvent})
		d.Sample(now, good())
		if got := d.Status(); got.State != Healthy && got.Code != ApplicationErrors {
			t.Fatalf("%+v", got)
		}
	})
}
