package health

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Device is the state machine of one device, or of one MIG instance. Feed it events and
// samples in the order of time; a time that goes back counts as the last one. The same
// inputs give the same status.
type Device struct {
	o *Options
	s Saved
}

// New is a healthy device. The options, valid, must not change afterwards.
func New(o *Options) *Device {
	return &Device{o: o, s: Saved{LastUncorrected: Unknown, LastEnergy: Unknown}}
}

// Status is the state, and why.
func (d *Device) Status() Status {
	out := Status{State: d.s.State, Since: d.s.Since}
	lasts := false
	for _, c := range d.s.Causes {
		if c.State != d.s.State {
			continue
		}
		if out.Code == "" {
			out.Code, out.XID, out.Reason = c.Code, c.XID, c.Words
			out.Help = rules[rank(c.Code)].help
			if !c.Gone.IsZero() {
				out.Reason += "; over, quiet time runs"
			}
		}
		lasts = lasts || c.Gone.IsZero()
		if until := c.Gone.Add(c.Quiet); !c.Gone.IsZero() && until.After(out.Until) {
			out.Until = until
		}
	}
	if lasts {
		out.Until = time.Time{}
	}
	return out
}

// Tick lets time pass.
func (d *Device) Tick(now time.Time) { d.settle(d.advance(now)) }

// Event takes note of an event.
func (d *Device) Event(now time.Time, e Event) {
	now = d.advance(now)
	switch e.Kind {
	case XIDEvent:
		d.xid(now, e)
	case MemoryEvent:
		d.raise(now, UncorrectedMemory, 0, "a memory error could not be corrected")
	case VerdictEvent:
		d.verdict(now, e.Verdict)
	case LostEvent:
		d.raise(now, OffTheBus, 0, "the driver no longer finds the device")
	case UnwatchedEvent:
		if d.s.Timers.Unwatched.IsZero() {
			d.s.Timers.Unwatched = now
		}
	case WatchedEvent:
		d.s.Timers.Unwatched = time.Time{}
		d.end(now, Unwatched)
	case ResetEvent:
		d.reset(now)
	case RebootEvent:
		d.reboot(now)
	}
	d.settle(now)
}

// xid acts on a driver error by its class.
func (d *Device) xid(now time.Time, e Event) {
	words := Describe(e.XID)
	switch d.o.Table.Class(e.XID) {
	case Application:
		d.applicationError(now, e.XID, e.Tenants)
	case AskDriver:
		if len(d.s.Questions) < maxErrors {
			d.s.Questions = append(d.s.Questions, Question{XID: e.XID, Tenants: slices.Clone(e.Tenants)})
		}
	case RestartApp:
		d.raise(now, RestartError, e.XID, words)
	case InspectClass:
		d.raise(now, InspectError, e.XID, words)
	case ResetGPU:
		d.raise(now, ResetError, e.XID, words)
	case RebootClass:
		if e.XID == offTheBus {
			d.raise(now, OffTheBus, e.XID, words)
		} else {
			d.raise(now, RebootError, e.XID, words)
		}
	}
}

// offTheBus is the XID after which a sample that is answered shows that it is over.
const offTheBus = 79

func (d *Device) applicationError(now time.Time, xid int, tenants []string) {
	if d.s.blame(now, tenants, d.o) {
		d.raise(now, ApplicationErrors, xid, fmt.Sprintf("%s and like errors of at least %d tenants within %s", Describe(xid), d.o.Tenants, d.o.BlameWindow))
	}
}

// Sample takes note of what was measured.
func (d *Device) Sample(now time.Time, m Sample) {
	now = d.advance(now)
	t := &d.s.Timers
	switch {
	case m.Silent:
		if t.Silent.IsZero() {
			t.Silent = now
		}
	case m.Lost:
		t.Silent = time.Time{}
		d.raise(now, OffTheBus, 0, "the driver no longer finds the device")
	default:
		t.Silent = time.Time{}
		d.answered(now, m)
	}
	d.settle(now)
}

// answered acts on a sample of a device that answers.
func (d *Device) answered(now time.Time, m Sample) {
	if fell(d.s.LastUncorrected, m.Uncorrected) || fell(d.s.LastEnergy, m.Energy*2) {
		d.reset(now)
	} else if last := d.s.LastUncorrected; last != Unknown && m.Uncorrected > last {
		d.raise(now, UncorrectedMemory, 0, fmt.Sprintf("%d memory errors could not be corrected", m.Uncorrected))
	}
	keep(&d.s.LastUncorrected, m.Uncorrected)
	keep(&d.s.LastEnergy, m.Energy)

	d.level(now, NoAnswer, 0, "")
	d.level(now, OffTheBus, 0, "")
	d.verdict(now, m.Verdict)
	d.questions(now)
	d.level(now, RowRemapFailure, m.RemapFailed, "remapping of a broken memory row failed")
	d.level(now, RowRemapPending, m.RemapPending, "a broken memory row is remapped at the next reset")
	d.level(now, RetiredPagesPending, m.RetiredPending, "memory pages are retired at the next reset")

	t := &d.s.Timers
	d.lasting(now, Hot, &t.Hot, d.o.HotFor, d.hot(m.Temperature), fmt.Sprintf("%d degrees Celsius or nearly so for %s", d.o.HotCelsius, d.o.HotFor))
	d.lasting(now, Throttled, &t.Throttled, d.o.ThrottledFor, m.HardwareThrottle, fmt.Sprintf("clocks are held down by the hardware for %s", d.o.ThrottledFor))
	d.s.MostLinks = max(d.s.MostLinks, m.Links)
	d.lasting(now, NVLinkDown, &t.Links, d.o.LinkFor, less(m.Links, d.s.MostLinks), fmt.Sprintf("%d of %d NVLinks are up", m.Links, d.s.MostLinks))
	narrow := less(m.Lanes, m.MaxLanes)
	if m.Lanes == 0 || m.MaxLanes == Unknown {
		narrow = Unknown
	}
	d.lasting(now, PCIeNarrow, &t.Lanes, d.o.LinkFor, narrow, fmt.Sprintf("PCIe has %d of %d lanes", m.Lanes, m.MaxLanes))

	// What a reboot should have cured and no sample shows any more.
	d.s.Causes = slices.DeleteFunc(d.s.Causes, func(c Cause) bool {
		if c.Rebooted {
			d.ended(now, c)
		}
		return c.Rebooted
	})
}

// fell: a counter is known to have begun anew.
func fell(last, present int64) bool { return last != Unknown && present >= 0 && present < last }

func keep(last *int64, present int64) {
	if present >= 0 {
		*last = present
	}
}

// less is 1 when known and below, 0 when known and not, else Unknown.
func less(value, than int) int {
	switch {
	case value < 0:
		return Unknown
	case value < than:
		return 1
	default:
		return 0
	}
}

// hot is 1 from the threshold on, 0 when cool, and Unknown in the margin between: there
// a hot device stays hot and a cool one cool.
func (d *Device) hot(celsius int) int {
	switch {
	case celsius == Unknown:
		return Unknown
	case d.o.HotCelsius == 0 || celsius < d.o.HotCelsius-HotMargin:
		return 0
	case celsius >= d.o.HotCelsius:
		return 1
	default:
		return Unknown
	}
}

// verdict acts on what the driver says the device needs.
func (d *Device) verdict(now time.Time, v Verdict) {
	if v == VerdictUnknown {
		return
	}
	d.s.Verdict = v
	is := func(of ...Verdict) int {
		if slices.Contains(of, v) {
			return 1
		}
		return 0
	}
	d.level(now, RebootRequired, is(VerdictReboot), "the driver asks for a reboot of the node")
	d.level(now, ResetRequired, is(VerdictReset, VerdictDrainReset), "the driver asks for a reset of the device")
	d.level(now, DrainRequired, is(VerdictDrainP2P), "the driver asks to end all programs that use peer-to-peer access")
	d.level(now, FabricRecovery, is(VerdictRecoverIMEX), "the driver asks to recover the IMEX domain")
	d.level(now, UnknownVerdict, 1-is(VerdictNone, VerdictReboot, VerdictReset, VerdictDrainReset, VerdictDrainP2P, VerdictRecoverIMEX),
		fmt.Sprintf("the driver asks for %q, which this agent does not know", clip(string(v))))
	if v == VerdictNone {
		for i := range d.s.Causes {
			if rules[rank(d.s.Causes[i].Code)].proof == byVerdict {
				d.end(now, d.s.Causes[i].Code)
			}
		}
	}
}

// questions decides about errors of class AskDriver once the driver was asked.
func (d *Device) questions(now time.Time) {
	if d.s.Verdict == VerdictNone || d.s.Verdict == VerdictUnknown {
		for _, q := range d.s.Questions {
			d.applicationError(now, q.XID, q.Tenants)
		}
	}
	d.s.Questions = nil
}

// reset ends what a reset cures and no sample shows.
func (d *Device) reset(now time.Time) {
	for i := range d.s.Causes {
		r := rules[rank(d.s.Causes[i].Code)]
		if r.proof == byVerdict && r.help == Reset {
			d.end(now, r.code)
		}
	}
	d.s.Verdict, d.s.Questions = VerdictUnknown, nil
	d.s.LastUncorrected, d.s.LastEnergy = Unknown, Unknown
}

// reboot ends everything but what a sample may still show.
func (d *Device) reboot(now time.Time) {
	d.s.Causes = slices.DeleteFunc(d.s.Causes, func(c Cause) bool {
		over := rules[rank(c.Code)].proof != bySample
		if over {
			d.ended(now, c)
		}
		return over
	})
	for i := range d.s.Causes {
		d.s.Causes[i].Rebooted = true
	}
	d.s.Verdict, d.s.Questions, d.s.Timers = VerdictUnknown, nil, Timers{}
	d.s.LastUncorrected, d.s.LastEnergy = Unknown, Unknown
}

// advance is now, or the last time if that is later.
func (d *Device) advance(now time.Time) time.Time {
	if now.Before(d.s.Now) {
		return d.s.Now
	}
	d.s.Now = now
	return now
}

// settle lets time act: silence and unwatched time count, quiet causes are forgotten,
// and the state follows.
func (d *Device) settle(now time.Time) {
	t := &d.s.Timers
	if !t.Silent.IsZero() && now.Sub(t.Silent) >= d.o.SilentFor {
		d.raise(now, NoAnswer, 0, fmt.Sprintf("the driver does not answer for %s", d.o.SilentFor))
		for i := range d.s.Causes {
			if c := &d.s.Causes[i]; c.Code == NoAnswer && now.Sub(t.Silent) >= d.o.FailedFor {
				c.State = Failed
				c.Words = fmt.Sprintf("the driver does not answer for %s", d.o.FailedFor)
				c.Quiet = max(c.Quiet, 5*rules[rank(NoAnswer)].quiet*time.Duration(d.o.QuietPercent)/100)
			}
		}
	}
	if !t.Unwatched.IsZero() && now.Sub(t.Unwatched) >= d.o.UnwatchedFor {
		d.raise(now, Unwatched, 0, fmt.Sprintf("errors of the driver cannot be received for %s", d.o.UnwatchedFor))
	}
	d.s.Causes = slices.DeleteFunc(d.s.Causes, func(c Cause) bool {
		over := !c.Gone.IsZero() && now.Sub(c.Gone) >= c.Quiet
		if !t.Silent.IsZero() && rules[rank(c.Code)].proof != byTime {
			over = false // it may be back: the driver has to say so first
		}
		if over {
			d.ended(now, c)
		}
		return over
	})
	worst := Healthy
	for _, c := range d.s.Causes {
		worst = max(worst, c.State)
	}
	if worst != d.s.State {
		d.s.State, d.s.Since = worst, now
	}
}

// clip bounds text that comes from a driver or a file.
func clip(text string) string {
	const longest = 200
	if len(text) > longest {
		return strings.ToValidUTF8(text[:longest], "") + "..."
	}
	return text
}
