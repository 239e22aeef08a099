package observe

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// start is when every test begins.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func eventOf(namespace string) apiquery.Event {
	return apiquery.Event{At: start, Gang: apiquery.GangRef{Namespace: namespace}}
}

// TestTimelineForgets: the last events are kept, and an answer says when some are lost.
func TestTimelineForgets(t *testing.T) {
	var timeline Timeline
	const added = maxEvents + spareRoom + 10
	for range added {
		timeline.add(eventOf("ns"))
	}
	first := uint64(start.UnixMicro())
	const kept = maxEvents + 10
	for _, c := range []struct {
		since uint64
		items int
		lost  bool
	}{
		{0, kept, false}, {first, kept, true}, {first + spareRoom - 2, kept, true}, {first + spareRoom - 1, kept, false}, {first + spareRoom, kept - 1, false},
		{first + added - 1, 0, false}, {first + added, kept, true}, {1, kept, true},
	} {
		tl := timeline.After(c.since)
		if len(tl.Items) != c.items || tl.Lost != c.lost || tl.Version != first+added-1 {
			t.Errorf("since %d: %d items, lost %v, version %d", c.since, len(tl.Items), tl.Lost, tl.Version)
		}
		for i := range tl.Items[:max(0, len(tl.Items)-1)] {
			if tl.Items[i+1].Version != tl.Items[i].Version+1 {
				t.Fatalf("since %d: %+v", c.since, tl.Items[i])
			}
		}
	}
}

// TestTimelineFair: a tenant who starts thousands of pods does not take the history of others away.
func TestTimelineFair(t *testing.T) {
	var tl Timeline
	for range 100 {
		tl.add(eventOf("quiet"))
	}
	for range 5 * maxEvents {
		tl.add(eventOf("loud"))
	}
	quiet := 0
	all := tl.After(0).Items
	for i := range all {
		if all[i].Gang.Namespace == "quiet" {
			quiet++
		}
	}
	if quiet != 100 || len(all) > maxEvents+spareRoom {
		t.Errorf("%d of 100 events of the quiet one are left, of %d", quiet, len(all))
	}
	if last := all[len(all)-1]; last.Version != tl.next-1 {
		t.Errorf("the last is %d of %d", last.Version, tl.next-1)
	}
}

// TestShares: just as many are kept as there is room for, and a namespace loses none while
// another keeps more.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count, total := map[string]int{}, 0
		for i, n := range rapid.SliceOfN(rapid.IntRange(1, 30), 1, 12).Draw(t, "counts") {
			count[fmt.Sprint(i)] = n
			total += n
		}
		keep := rapid.IntRange(0, 100).Draw(t, "keep")
		each, more := shares(count, keep)
		kept, larger := 0, 0
		for _, n := range count {
			kept += min(n, each)
			if n > each {
				larger++
			}
		}
		if kept+more != min(keep, total) || more > larger || more > 0 && more >= larger {
			t.Fatalf("%v, room for %d: %d each and %d more, of %d larger, keeps %d", count, keep, each, more, larger, kept)
		}
	})
}
