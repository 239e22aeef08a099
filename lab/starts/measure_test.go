package starts

import (
	"bytes"
	"testing"

	"github.com/tangram-dev/tangram/lab/sim"
)

// TestMeasure: with declared runtimes starts are foreseen better than with learned ones, and
// a queue whose jobs all have come is foreseen exactly.
func TestMeasure(t *testing.T) {
	var b bytes.Buffer
	must(t, sim.GenerateJobs(&b, 150, 7))
	jobs, err := sim.ReadJobs("jobs.csv", &b)
	must(t, err)
	r := Replay{Jobs: jobs, GPUs: 16, GPUsPerNode: 8, Every: 1, Most: 40, Declared: true}
	declared, err := r.Measure(t.Context(), func(float64) {})
	must(t, err)
	r.Declared = false
	learned, err := r.Measure(t.Context(), func(float64) {})
	must(t, err)
	t.Logf("declared %+v\nlearned %+v", declared, learned)
	if declared.Asked < 10 || declared.Unknown > 0 || declared.Median > declared.Wait/2 {
		t.Errorf("declared: %+v", declared)
	}
	// Nothing comes after the last: what is expected then is what happens.
	for i := range jobs {
		jobs[i].Submitted = 0
	}
	last := Replay{Jobs: jobs[:60], GPUs: 16, GPUsPerNode: 8, Every: 44, Most: 1000, Declared: true}
	got, err := last.Measure(t.Context(), func(float64) {})
	must(t, err)
	if got.Asked < 2 {
		t.Errorf("got %+v", got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
