package bench

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLockTimes(t *testing.T) {
	const text = `# HELP tangram_engine_lock_seconds x
tangram_engine_lock_seconds_bucket{for="step",le="0.01"} 7
tangram_engine_lock_seconds_bucket{for="step",le="0.05"} 9
tangram_engine_lock_seconds_bucket{for="step",le="0.1"} 10
tangram_engine_lock_seconds_bucket{for="step",le="+Inf"} 10
tangram_engine_lock_seconds_sum{for="step"} 0.25
tangram_engine_lock_seconds_count{for="step"} 10
other_bucket{le="1"} 3
`
	got, err := parseLockTimes(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := LockTimes{"step": {Count: 10, Seconds: 0.25, Over: map[string]uint64{"10": 3, "50": 1}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
