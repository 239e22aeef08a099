package arbiter

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestList compares with a plain slice that is sorted after every change.
func TestList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := list{compare: byAge}
		var want []*entry
		next := 0
		for range rapid.IntRange(1, 4*chunkSize).Draw(t, "steps") {
			if len(want) == 0 || rapid.IntRange(0, 3).Draw(t, "what") > 0 {
				e := &entry{Job: Job{ID: JobID(fmt.Sprint(next)), Submitted: rapid.Int64Range(0, 100).Draw(t, "submitted")}}
				next++
				l.insert(e)
				want = append(want, e)
				slices.SortFunc(want, byAge)
			} else {
				i := rapid.IntRange(0, len(want)-1).Draw(t, "which")
				l.remove(want[i])
				want = slices.Delete(want, i, i+1)
			}
		}
		var got []*entry
		for e := l.after(nil); e != nil; e = l.after(e) {
			got = append(got, e)
		}
		if !slices.Equal(got, want) {
			t.Fatal("the walk differs from the sorted slice")
		}
		for _, c := range l.chunks {
			if len(c) == 0 || len(c) > chunkSize {
				t.Fatalf("a chunk of %d", len(c))
			}
		}
		// A job that is not in the list still says where to go on.
		gone := &entry{Job: Job{ID: "x", Submitted: rapid.Int64Range(-1, 101).Draw(t, "gone")}}
		i, _ := slices.BinarySearchFunc(want, gone, byAge)
		if e := l.after(gone); i == len(want) && e != nil || i < len(want) && e != want[i] {
			t.Fatal("after a job that is gone, the walk goes on elsewhere")
		}
	})
}
