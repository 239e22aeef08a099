package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/test/chaos/checker"
)

// Fault is one fault that happened.
type Fault struct {
	Kind  string    `json:"kind"`
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	// AfterBegin and AfterEnd are how long after the fault's begin and end the
	// scheduler bound a pod again; Recovered is false if it did not within a minute.
	Recovered  bool          `json:"recovered"`
	AfterBegin time.Duration `json:"bindingAfterBeginNanos"`
	AfterEnd   time.Duration `json:"bindingAfterEndNanos"`
}

// Result is what a run found.
type Result struct {
	Seed     uint64        `json:"seed"`
	Duration time.Duration `json:"durationNanos"`
	Lease    time.Duration `json:"leaseNanos"`
	Faults   []Fault       `json:"faults"`
	Load     Weights       `json:"load"`
	Units    int           `json:"units"`
	checker.Summary
	// Left is how many units were left when the faults were over, and AllBound how
	// long it took until all of them were bound.
	Left     int              `json:"unitsLeft"`
	AllBound time.Duration    `json:"allBoundAfterNanos"`
	Restarts map[string]int   `json:"restarts"`
	Breaches []checker.Breach `json:"breaches"`
	// Recordings are the schedulers', played again.
	Recordings []Recording `json:"recordings"`
}

// OK says whether every invariant held.
func (r *Result) OK() bool {
	return len(r.Breaches) == 0 && !slices.ContainsFunc(r.Recordings, func(x Recording) bool { return !x.OK() }) && !slices.ContainsFunc(r.Faults, func(f Fault) bool { return !f.Recovered })
}

// Save writes result.json.
func (r *Result) Save(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "result.json"), append(data, '\n'), 0o600)
}

// Print writes the readable summary.
func (r *Result) Print(out io.Writer) {
	fmt.Fprintf(out, "\nseed %d, %s, lease %s: %d units, %d bindings, %d faults; the scheduler could work for %s\n",
		r.Seed, r.Duration, r.Lease, r.Units, r.Bindings, len(r.Faults), r.AbleTime.Round(time.Second))
	fmt.Fprintf(out, "restarts: %s\n", counted(r.Restarts))
	fmt.Fprintf(out, "gangs seen between first and last binding: %d, longest %s; by hand: %d conflicts of their own, %d races\n",
		r.HalfGangs, r.HalfGangLongest.Round(time.Millisecond), r.HandConflicts, r.HandRaces)
	if slices.ContainsFunc(r.Breaches, func(b checker.Breach) bool { return b.Kind == checker.NotBound }) {
		fmt.Fprintf(out, "after the faults: %d units, NOT all bound after %s\n\n", r.Left, boundWithin)
	} else {
		fmt.Fprintf(out, "after the faults: %d units, all bound after %s\n\n", r.Left, r.AllBound.Round(time.Millisecond))
	}
	r.printFaults(out)
	fmt.Fprintln(out)
	r.printRecordings(out)
	if r.OK() {
		fmt.Fprintln(out, "\nno invariant was broken")
		return
	}
	fmt.Fprintf(out, "\nBROKEN: %d breaches\n", len(r.Breaches))
	told := map[checker.Kind]bool{}
	for i, b := range r.Breaches {
		const shown = 20
		if i == shown {
			fmt.Fprintf(out, "... and %d more, in result.json\n", len(r.Breaches)-shown)
			break
		}
		r.printBreach(out, b, !told[b.Kind]) // the history of the first of each kind
		told[b.Kind] = true
	}
}

// printFaults is one line per kind of fault: recovery and breaches.
func (r *Result) printFaults(out io.Writer) {
	fmt.Fprintf(out, "%-16s %5s  %-23s  %-23s  %s\n", "fault", "times", "binding after its begin", "binding after its end", "breaches after it")
	kinds, breaches := map[string][]Fault{}, map[string]map[string]int{}
	for _, f := range r.Faults {
		kinds[f.Kind] = append(kinds[f.Kind], f)
	}
	for _, b := range r.Breaches {
		kind := b.LastFault
		if kind == "" {
			kind = "(none yet)"
		}
		if b.Kind == checker.NotBound {
			kind = "(at the end)"
		}
		if breaches[kind] == nil {
			breaches[kind] = map[string]int{}
			kinds[kind] = append(kinds[kind], []Fault{}...)
		}
		breaches[kind][string(b.Kind)]++
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		list := kinds[kind]
		fmt.Fprintf(out, "%-16s %5d  %-23s  %-23s  %s", kind, len(list),
			spread(list, func(f Fault) time.Duration { return f.AfterBegin }),
			spread(list, func(f Fault) time.Duration { return f.AfterEnd }), counted(breaches[kind]))
		for _, f := range list {
			if !f.Recovered {
				fmt.Fprint(out, " NO BINDING WITHIN A MINUTE")
			}
		}
		fmt.Fprintln(out)
	}
}

// spread is the median and the worst.
func spread(list []Fault, of func(Fault) time.Duration) string {
	if len(list) == 0 {
		return ""
	}
	var all []time.Duration
	for _, f := range list {
		all = append(all, of(f))
	}
	slices.Sort(all)
	return fmt.Sprintf("%.2fs, worst %.2fs", all[(len(all)-1)/2].Seconds(), all[len(all)-1].Seconds())
}

func counted(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if m[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", m[k], k))
		}
	}
	return strings.Join(parts, ", ")
}

func (r *Result) printBreach(out io.Writer, b checker.Breach, history bool) {
	when := "before any fault"
	switch {
	case slices.Contains(b.Active, b.LastFault):
		when = fmt.Sprintf("%.1fs after %s began", b.SinceFault.Seconds(), b.LastFault)
	case b.LastFault != "":
		when = fmt.Sprintf("%.1fs after %s ended", b.SinceFault.Seconds(), b.LastFault)
	}
	fmt.Fprintf(out, "\n%s %s, %s: %s\n", b.Time.Format("15:04:05.000"), b.Kind, when, b.Text)
	if b.Kind == checker.DoubleBooking {
		fmt.Fprintf(out, "  lasted %s, containers of both ran: %t\n", time.Duration(b.LastedMillis)*time.Millisecond, b.BothRan)
	}
	if history {
		for _, line := range b.History {
			fmt.Fprintln(out, "  |", line)
		}
	}
}
