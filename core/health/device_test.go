package health

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Unix(1_800_000_000, 0)

// good is a sample of a device that needs nothing.
func good(change ...func(*Sample)) Sample {
	m := Blank()
	m.Verdict, m.Temperature, m.HardwareThrottle = VerdictNone, 50, 0
	m.RemapPending, m.RemapFailed, m.RetiredPending, m.Uncorrected = 0, 0, 0, 0
	m.Links, m.Lanes, m.MaxLanes = 18, 16, 16
	for _, c := range change {
		c(&m)
	}
	return m
}

// story drives one device; minutes are since start.
type story struct {
	t *testing.T
	d *Device
}

func tell(t *testing.T) story {
	o := Defaults()
	return story{t, New(&o)}
}

func at(minutes float64) time.Time {
	return start.Add(time.Duration(minutes * float64(time.Minute)))
}

func (s story) event(minutes float64, e Event)   { s.d.Event(at(minutes), e) }
func (s story) sample(minutes float64, m Sample) { s.d.Sample(at(minutes), m) }
func (s story) xid(minutes float64, x int, t ...string) {
	s.event(minutes, Event{Kind: XIDEvent, XID: x, Tenants: t})
}

func (s story) want(minutes float64, state State, code Code, help Help) {
	s.t.Helper()
	s.d.Tick(at(minutes))
	got := s.d.Status()
	if got.State != state || got.Code != code || got.Help != help {
		s.t.Errorf("minute %v: got %s %q (%s), help %q; want %s %q, help %q", minutes, got.State, got.Code, got.Reason, got.Help, state, code, help)
	}
}

func TestApplicationErrorsOfOneTenant(t *testing.T) {
	s := tell(t)
	for i := range 1000 {
		s.xid(float64(i)/10, 31, "evil")
		s.want(float64(i)/10, Healthy, "", NoHelp)
	}
	// Others share the device with him and come and go.
	for i := range 1000 {
		s.xid(200+float64(i)/10, 13, "evil", string(rune('a'+i%26)))
		s.want(200+float64(i)/10, Healthy, "", NoHelp)
	}
}

func TestApplicationErrorsOfSeveralTenants(t *testing.T) {
	s := tell(t)
	s.xid(0, 31, "a")
	s.xid(1, 13, "b")
	s.want(1, Healthy, "", NoHelp)
	s.xid(2, 31, "c")
	s.want(2, Suspect, ApplicationErrors, RestartApplication)
	for m := 3.0; m < 7; m++ {
		s.xid(m, 31, "d")
		s.want(m, Suspect, ApplicationErrors, RestartApplication)
	}
	s.want(7, Healthy, "", NoHelp)
	for m := 8.0; m < 60; m++ {
		s.xid(m, 31, string(rune(int('a')+int(m)%20)))
		s.want(m, Healthy, "", NoHelp)
	}
}

func TestContainedErrorPassesBySilence(t *testing.T) {
	s := tell(t)
	s.xid(0, 94)
	s.want(0, Suspect, RestartError, RestartApplication)
	if got := s.d.Status(); !got.Until.Equal(at(5)) || got.XID != 94 || got.Reason != "XID 94 (contained memory error); over, quiet time runs" {
		t.Errorf("status: %+v", got)
	}
	s.xid(4, 94)
	s.want(8.9, Suspect, RestartError, RestartApplication)
	s.want(9, Healthy, "", NoHelp)
	// It comes back: each time the quiet time doubles, up to eight times.
	now := 9.0
	for _, quiet := range []float64{10, 20, 40, 40} {
		s.xid(now, 94)
		s.want(now+quiet-0.1, Suspect, RestartError, RestartApplication)
		s.want(now+quiet, Healthy, "", NoHelp)
		now += quiet
	}
	// After a long time it is as new.
	s.xid(now+400, 94)
	s.want(now+405, Healthy, "", NoHelp)
}

func TestResetErrorLastsUntilReset(t *testing.T) {
	s := tell(t)
	unknown := good(func(m *Sample) { m.Verdict = VerdictUnknown })
	s.xid(0, 95)
	for m := 1.0; m < 1000; m += 10 {
		s.sample(m, unknown)
		s.want(m, Degraded, ResetError, Reset)
	}
	s.event(1000, Event{Kind: ResetEvent})
	s.want(1009.9, Degraded, ResetError, Reset)
	s.want(1010, Healthy, "", NoHelp)
}

func TestVerdictOverridesTable(t *testing.T) {
	s := tell(t)
	s.xid(0, 95)
	s.sample(1, good())
	s.want(10.9, Degraded, ResetError, Reset)
	s.want(11, Healthy, "", NoHelp)

	s.xid(20, 109, "a")
	s.want(20, Healthy, "", NoHelp) // first ask the driver
	s.sample(20.1, good())
	s.want(20.1, Healthy, "", NoHelp)
	s.xid(21, 109, "a")
	s.sample(21.1, good(func(m *Sample) { m.Verdict = VerdictReset }))
	s.want(21.1, Degraded, ResetRequired, Reset)
	s.event(22, Event{Kind: VerdictEvent, Verdict: VerdictReboot})
	s.want(22, Failed, RebootRequired, Reboot)
	s.sample(23, good())
	s.want(52.9, Failed, RebootRequired, Reboot)
	s.want(53, Healthy, "", NoHelp)
	s.event(54, Event{Kind: VerdictEvent, Verdict: "SOMETHING_NEW"})
	s.want(54, Degraded, UnknownVerdict, Inspect)
}

func TestLevels(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Sample)
		after  float64 // minutes until it counts
		state  State
		code   Code
		help   Help
		quiet  float64
	}{
		{"row remap pending", func(m *Sample) { m.RemapPending = 1 }, 0, Degraded, RowRemapPending, Reset, 10},
		{"row remap failed", func(m *Sample) { m.RemapFailed = 1 }, 0, Failed, RowRemapFailure, Replace, 30},
		{"retired pages", func(m *Sample) { m.RetiredPending = 1 }, 0, Degraded, RetiredPagesPending, Reset, 10},
		{"lost", func(m *Sample) { m.Lost = true }, 0, Failed, OffTheBus, Reboot, 30},
		{"reset asked for", func(m *Sample) { m.Verdict = VerdictDrainReset }, 0, Degraded, ResetRequired, Reset, 10},
		{"drain", func(m *Sample) { m.Verdict = VerdictDrainP2P }, 0, Degraded, DrainRequired, RestartApplication, 10},
		{"IMEX", func(m *Sample) { m.Verdict = VerdictRecoverIMEX }, 0, Degraded, FabricRecovery, Inspect, 10},
		{"hot", func(m *Sample) { m.Temperature = 90 }, 5, Degraded, Hot, Inspect, 10},
		{"throttled", func(m *Sample) { m.HardwareThrottle = 1 }, 10, Degraded, Throttled, Inspect, 10},
		{"links down", func(m *Sample) { m.Links = 17 }, 1, Degraded, NVLinkDown, Reset, 10},
		{"narrow", func(m *Sample) { m.Lanes = 8 }, 1, Degraded, PCIeNarrow, Inspect, 10},
		{"silent", func(m *Sample) { m.Silent = true }, 0.5, Degraded, NoAnswer, Reboot, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := tell(t)
			s.sample(0, good())
			s.sample(1, good(tt.change))
			if tt.after > 0 {
				s.sample(1+tt.after-0.1, good(tt.change))
				s.want(1+tt.after-0.1, Healthy, "", NoHelp)
				s.sample(1+tt.after, good(tt.change))
			}
			s.want(1+tt.after, tt.state, tt.code, tt.help)
			s.sample(8+tt.after, good(tt.change)) // lasts
			s.want(8+tt.after, tt.state, tt.code, tt.help)
			s.sample(20, good())
			s.want(19.9+tt.quiet, tt.state, tt.code, tt.help)
			s.want(20+tt.quiet, Healthy, "", NoHelp)
		})
		t.Run(tt.name+", disabled", func(t *testing.T) {
			o := Defaults()
			o.Disabled = []Code{tt.code}
			s := story{t, New(&o)}
			s.sample(0, good())
			for m := 1.0; m < 30; m++ {
				s.sample(m, good(tt.change))
			}
			s.want(30, Healthy, "", NoHelp)
		})
	}
}

func TestSilenceBecomesFailure(t *testing.T) {
	s := tell(t)
	silent := Sample{Silent: true}
	s.sample(0, silent)
	s.want(0.4, Healthy, "", NoHelp)
	s.want(0.5, Degraded, NoAnswer, Reboot)
	s.want(9.9, Degraded, NoAnswer, Reboot)
	s.want(10, Failed, NoAnswer, Reboot)
	s.sample(11, good())
	s.want(20.9, Failed, NoAnswer, Reboot)
	s.want(21, Healthy, "", NoHelp)
}

func TestUnwatched(t *testing.T) {
	s := tell(t)
	s.event(0, Event{Kind: UnwatchedEvent})
	s.event(1, Event{Kind: UnwatchedEvent})
	s.want(1.9, Healthy, "", NoHelp)
	s.want(2, Suspect, Unwatched, Inspect)
	s.event(60, Event{Kind: WatchedEvent})
	s.want(60.9, Suspect, Unwatched, Inspect)
	s.want(61, Healthy, "", NoHelp)
}

func TestResetSeenByCounters(t *testing.T) {
	for name, after := range map[string]func(*Sample){
		"memory errors": func(m *Sample) { m.Uncorrected, m.Energy = 0, Unknown },
		"energy":        func(m *Sample) { m.Uncorrected, m.Energy = Unknown, 10 },
	} {
		t.Run(name, func(t *testing.T) {
			s := tell(t)
			unknown := func(m *Sample) { m.Verdict = VerdictUnknown }
			s.sample(0, good(unknown, func(m *Sample) { m.Energy = 1000 }))
			s.sample(1, good(unknown, func(m *Sample) { m.Uncorrected, m.Energy = 1, 2000 }))
			s.want(100, Degraded, UncorrectedMemory, Reset)
			s.sample(101, good(unknown, after))
			s.want(110.9, Degraded, UncorrectedMemory, Reset)
			s.want(111, Healthy, "", NoHelp)
		})
	}
}

func TestReboot(t *testing.T) {
	s := tell(t)
	s.xid(0, 79)
	s.xid(0, 95)
	s.sample(1, good(func(m *Sample) { m.RemapFailed, m.RemapPending = 1, 1 }))
	s.event(2, Event{Kind: RebootEvent})
	s.want(2, Failed, RowRemapFailure, Replace) // nothing is known yet
	s.sample(3, good(func(m *Sample) { m.RemapFailed = 1 }))
	s.want(3, Failed, RowRemapFailure, Replace)
	if n := len(s.d.Saved().Causes); n != 1 {
		t.Errorf("a reboot and a sample left %d causes, want 1", n)
	}
	s.event(4, Event{Kind: RebootEvent})
	s.sample(5, good())
	s.want(5, Healthy, "", NoHelp)
}

func TestWorstCauseIsShown(t *testing.T) {
	s := tell(t)
	s.xid(0, 94)
	s.sample(1, good(func(m *Sample) { m.RemapPending = 1 }))
	s.want(1, Degraded, RowRemapPending, Reset)
	s.xid(2, 79)
	s.want(2, Failed, OffTheBus, Reboot)
	if got := s.d.Status(); !got.Since.Equal(at(2)) || !got.Until.IsZero() || got.Reason != "XID 79 (GPU has fallen off the bus)" {
		t.Errorf("status: %+v", got)
	}
}

func TestTable(t *testing.T) {
	table := DefaultTable()
	total := 0
	for _, codes := range codesOf {
		total += len(codes)
	}
	if total != len(table) {
		t.Errorf("%d codes in the classes, %d in the table: one is in two classes", total, len(table))
	}
	if got := table.Class(500); got != RestartApp {
		t.Errorf("unknown code: %s", got)
	}
	if err := table.Override(" 31=IGNORE, 109=RESET_GPU,,700=REBOOT"); err != nil {
		t.Fatal(err)
	}
	if table.Class(31) != Ignore || table.Class(109) != ResetGPU || table.Class(700) != RebootClass {
		t.Errorf("not overridden: %v", table)
	}
	before := len(table)
	for text, want := range map[string]string{
		"31":                     `"31": want <XID>=<class>, the XID from 1 to 999`,
		"x=IGNORE":               `"x=IGNORE": want <XID>=<class>, the XID from 1 to 999`,
		"800=REBOOT,0=IGNORE":    `"0=IGNORE": want <XID>=<class>, the XID from 1 to 999`,
		"31=ignore":              `"31=ignore": unknown class "ignore"; the classes are [IGNORE APPLICATION ASK_DRIVER RESTART_APP INSPECT RESET_GPU REBOOT]`,
		"801=IGNORE,801=REBOOT ": `"801=REBOOT": XID 801 is given twice`,
	} {
		if err := table.Override(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if len(table) != before {
		t.Error("a refused override changed the table")
	}
}

// TestEveryXIDClassActs: each class leads where its comment says.
func TestEveryXIDClassActs(t *testing.T) {
	want := map[Class]State{Ignore: Healthy, Application: Healthy, AskDriver: Healthy, RestartApp: Suspect,
		InspectClass: Degraded, ResetGPU: Degraded, RebootClass: Failed}
	for _, class := range Classes() {
		for _, code := range codesOf[class] {
			s := tell(t)
			s.xid(0, code, "a")
			if got := s.d.Status().State; got != want[class] {
				t.Errorf("XID %d of class %s: %s, want %s", code, class, got, want[class])
			}
		}
	}
}

func TestOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"hotFor: -1s is not between 0 and 30 days":       func(o *Options) { o.HotFor = -time.Second },
		"failedFor: 1s is shorter than SilentFor, 30s":   func(o *Options) { o.FailedFor = time.Second },
		"hotCelsius: 300 is not between 0 (off) and 200": func(o *Options) { o.HotCelsius = 300 },
		"tenants: 1 is not between 2 and 4":              func(o *Options) { o.Tenants = 1 },
		"quietPercent: -1 is not between 0 and 10000":    func(o *Options) { o.QuietPercent = -1 },
		"maxDoublings: 99 is not between 0 and 10":       func(o *Options) { o.MaxDoublings = 99 },
	} {
		o := Defaults()
		change(&o)
		if err := o.Validate(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	o := Defaults()
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
	o.Disabled = []Code{"Tired"}
	if err := o.Validate(); err == nil {
		t.Error("an unknown cause was accepted")
	}
	if len(Codes()) != len(rules) || cmp.Diff(States(), []State{0, 1, 2, 3}) != "" {
		t.Error("lists are not complete")
	}
}
