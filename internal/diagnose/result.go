package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// State is the result of a check.
type State string

// The states, mildest first.
const (
	OK      State = "ok"
	Unknown State = "unknown" // what the check needs is not there
	Warn    State = "warn"
	Fail    State = "fail"
)

// rank orders states by how bad they are.
func (s State) rank() int { return slices.Index([]State{OK, Unknown, Warn, Fail}, s) }

// Result is what one check found.
type Result struct {
	Check string `json:"check"`
	State State  `json:"result"`
	// Seen are the numbers, Do what to do; empty when nothing is.
	Seen string `json:"seen"`
	Do   string `json:"do,omitempty"`
}

// Report is the diagnosis of one node.
type Report struct {
	Node    string   `json:"node"`
	Worst   State    `json:"result"`
	Results []Result `json:"checks"`
}

// finding collects what a check sees; the worst of it is the check's result, and what is said
// of lesser ones stands behind.
type finding struct {
	state State
	seen  [4][]string
	do    [4][]string
}

// add adds one observation. do may be empty.
func (f *finding) add(s State, do, format string, args ...any) {
	if f.state == "" || s.rank() > f.state.rank() {
		f.state = s
	}
	f.seen[s.rank()] = append(f.seen[s.rank()], fmt.Sprintf(format, args...))
	if do != "" && !slices.Contains(f.do[s.rank()], do) {
		f.do[s.rank()] = append(f.do[s.rank()], do)
	}
}

const most = 6 // how many observations of a kind are spelt out

// result is the finding as a check's result; without observations it is ok and says so.
func (f *finding) result(ok string) Result {
	r := Result{State: f.state}
	if f.state == "" {
		r.State, r.Seen = OK, ok
		return r
	}
	var seen []string
	for rank := 3; rank >= 0; rank-- {
		list := f.seen[rank]
		if len(list) > most {
			list = append(list[:most:most], fmt.Sprintf("and %d more", len(list)-most))
		}
		seen = append(seen, list...)
		if r.Do == "" && rank > 0 {
			r.Do = strings.Join(f.do[rank], "; ")
		}
	}
	r.Seen = strings.Join(seen, "; ")
	return r
}

// checks in the order they are shown: what explains others first.
var checks = []struct {
	name string
	run  func(*Facts) Result
}{
	{"node", node}, {"agent", agent}, {"published", published}, {"driver", withGPUs(driver)},
	{"devices", withGPUs(devices)}, {"ecc", withGPUs(ecc)}, {"xid", withGPUs(xid)}, {"links", withGPUs(links)}, {"throttling", withGPUs(throttling)},
	{"temperature", withFigures(temperature)}, {"power", withFigures(power)}, {"memory", withFigures(memory)},
	{"plugin", plugin}, {"capacity", withGPUs(capacity)}, {"labels", labels},
	{"allocations", allocations}, {"stuck", stuck}, {"cordons", cordons}, {"mig", mig}, {"slices", slicesOf},
}

// withGPUs is a check that needs what the agent publishes.
func withGPUs(run func(*Facts) Result) func(*Facts) Result {
	return func(f *Facts) Result {
		if f.GPUs == nil {
			return noGPUNode()
		}
		return run(f)
	}
}

// withFigures is a check of numbers that agents measure; stale ones count as unknown.
func withFigures(run func(*Facts) Result) func(*Facts) Result {
	return withGPUs(func(f *Facts) Result {
		if f.GPUs.MeasuredAt.IsZero() || f.Now.Sub(f.GPUs.MeasuredAt) >= staleAfter {
			return unknown("nothing was measured within %s", span(staleAfter))
		}
		return run(f)
	})
}

// Names are the names of the checks, in order.
func Names() []string {
	var out []string
	for _, c := range checks {
		out = append(out, c.name)
	}
	return out
}

// Run makes all checks.
func Run(f *Facts) Report {
	r := Report{Node: f.Node.Name, Worst: OK}
	for _, c := range checks {
		result := c.run(f)
		result.Check = c.name
		r.Results = append(r.Results, result)
		if result.State.rank() > r.Worst.rank() {
			r.Worst = result.State
		}
	}
	return r
}

// Of are the results of a state.
func (r *Report) Of(s State) (out []Result) {
	for _, x := range r.Results {
		if x.State == s {
			out = append(out, x)
		}
	}
	return out
}

// unknown is the result of a check that needs what is not there.
func unknown(format string, args ...any) Result {
	return Result{State: Unknown, Seen: fmt.Sprintf(format, args...)}
}

func noGPUNode() Result { return unknown("not known: the node has no GPUNode, which gpu-agent writes") }

func (f *Facts) ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return span(f.Now.Sub(t)) + " ago"
}

// span writes a duration in its two largest units.
func span(d time.Duration) string {
	d = d.Round(time.Second)
	if d.Abs() >= 48*time.Hour {
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
	if d.Abs() >= time.Hour {
		d = d.Truncate(time.Minute)
	}
	text := d.String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-2]
		}
	}
	return text
}
