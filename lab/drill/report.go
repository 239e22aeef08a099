package drill

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Report is what a drill found.
type Report struct {
	Nodes         int      `json:"nodes"`
	GPUs          int      `json:"gpus"`
	Fast          bool     `json:"fast"`
	TargetSeconds float64  `json:"targetSeconds"`
	WallSeconds   float64  `json:"wallSeconds"`
	Results       []Result `json:"results"`
}

// Result is how one fault went. Times are in seconds.
type Result struct {
	Fault string `json:"fault"`
	What  string `json:"what"`
	// Detected is from the fault until it was acted on, Restored until the service was
	// whole again; Returned is from the repair until what was broken was back in service,
	// 0 where nothing was to come back.
	Detected float64 `json:"detectedSeconds"`
	Restored float64 `json:"restoredSeconds"`
	Returned float64 `json:"returnedSeconds"`
	OK       bool    `json:"ok"`
	Note     string  `json:"note,omitempty"`
}

// OK says whether every fault was recovered from in time.
func (r *Report) OK() bool {
	for _, x := range r.Results {
		if !x.OK {
			return false
		}
	}
	return true
}

// MTTR is the mean time until the service was whole again, of the faults that were
// recovered from, in seconds.
func (r *Report) MTTR() float64 {
	sum, n := 0.0, 0
	for _, x := range r.Results {
		if x.Restored > 0 {
			sum, n = sum+x.Restored, n+1
		}
	}
	return sum / float64(max(1, n))
}

// Write prints the report as a table.
func (r *Report) Write(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FAULT\tDETECTED\tSERVICE WHOLE\tBACK AFTER REPAIR\tTARGET\t")
	for _, x := range r.Results {
		met := "met"
		if !x.OK {
			met = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", x.Fault, seconds(x.Detected), seconds(x.Restored), seconds(x.Returned), met, x.Note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d nodes, %d GPUs; mean time until the service was whole: %.1f s, target %.0f s\n", r.Nodes, r.GPUs, r.MTTR(), r.TargetSeconds)
	return err
}

func seconds(s float64) string {
	if s == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f s", s)
}
