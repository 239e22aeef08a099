package observe

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// How many decisions are remembered. Room is made for some at a time.
const (
	maxEvents = 10_000
	spareRoom = maxEvents / 8
)

// Timeline has the last decisions. If there are too many, it drops the oldest of the namespaces
// that have most: a tenant who starts thousands of pods does not push out the history of other
// tenants. Writing an event costs a copy of a few words: names are those of the objects. It is
// safe for concurrent use.
type Timeline struct {
	mu     sync.Mutex
	events []apiquery.Event // by version
	// Versions begin at this process' start: those of an earlier leader are of the past.
	first     uint64 // version of the first event ever; 0 before
	next      uint64
	forgotten uint64 // the latest version that is forgotten; 0: none
}

// add appends an event.
func (t *Timeline) add(e apiquery.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == 0 {
		t.first = uint64(e.At.UnixMicro())
		t.next = t.first
	}
	e.Version = t.next
	t.next++
	if len(t.events) >= maxEvents+spareRoom {
		t.makeRoom()
	}
	t.events = append(t.events, e)
}

// makeRoom forgets all but maxEvents. The caller holds the lock.
func (t *Timeline) makeRoom() {
	count := map[string]int{}
	for i := range t.events {
		count[t.events[i].Gang.Namespace]++
	}
	forget := map[string]int{}
	each, more := shares(count, maxEvents)
	for _, namespace := range slices.Sorted(maps.Keys(count)) {
		keep := min(each, count[namespace])
		if more > 0 && keep < count[namespace] {
			keep++
			more--
		}
		forget[namespace] = count[namespace] - keep
	}
	t.events = slices.DeleteFunc(t.events, func(e apiquery.Event) bool {
		if forget[e.Gang.Namespace] == 0 {
			return false
		}
		forget[e.Gang.Namespace]--
		t.forgotten = max(t.forgotten, e.Version)
		return true
	})
}

// shares says how many of those that are kept each namespace has at most, and how many have one
// more, so that just so many are kept in all.
func shares(count map[string]int, keep int) (each, more int) {
	sizes := slices.Sorted(maps.Values(count))
	for i, n := range sizes {
		left := len(sizes) - i
		if n*left >= keep { // all that are left have at least this many
			return keep / left, keep % left
		}
		keep -= n
	}
	return sizes[len(sizes)-1], 0 // no namespace has too many
}

// After are the events after a version, the oldest first; 0: all that are remembered. Texts
// name no other gang.
func (t *Timeline) After(since uint64) apiquery.Timeline {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := apiquery.Timeline{Items: []apiquery.Event{}}
	if t.first == 0 {
		out.Lost = since > 0
		return out
	}
	out.Version = t.next - 1
	from := 0
	if since >= t.first-1 && since < t.next {
		from, _ = slices.BinarySearchFunc(t.events, since+1, func(e apiquery.Event, v uint64) int { return cmp.Compare(e.Version, v) })
		out.Lost = since < t.forgotten
	} else {
		out.Lost = since > 0 // of another process
	}
	out.Items = append(out.Items, t.events[from:]...)
	return out
}
