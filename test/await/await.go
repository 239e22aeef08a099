// Package await waits for what a cluster does in its own time. Tests on a cluster share it,
// so that none of them asks more often than it must: many of them run at once, and every
// question costs the API server about a thousandth of a second.
package await

import (
	"testing"
	"time"
)

// Patience is by how much a test's limit is longer than what a quiet machine needs: the
// machine may run other tests, or others' work.
const Patience = 4

const (
	first   = 25 * time.Millisecond
	longest = 200 * time.Millisecond
)

// Until asks until holds says yes, often at first and then five times a second, and at
// least once. After limit it gives up and returns false, with what was last seen.
func Until(limit time.Duration, holds func() (ok bool, seen string)) (bool, string) {
	deadline := time.Now().Add(limit)
	for pause := first; ; pause = min(pause*5/4, longest) {
		ok, seen := holds()
		if ok || time.Now().After(deadline) {
			return ok, seen
		}
		time.Sleep(pause)
	}
}

// Eventually is Until for what must come to hold: else the test ends, with what was last
// seen.
func Eventually(t testing.TB, what string, limit time.Duration, holds func() (ok bool, seen string)) {
	t.Helper()
	if ok, seen := Until(limit, holds); !ok {
		t.Fatalf("%s: not within %s; last seen: %s", what, limit, seen)
	}
}

// Complete is Eventually for a question whose answer is what is missing: it waits until
// nothing is.
func Complete(t testing.TB, what string, limit time.Duration, missing func() string) {
	t.Helper()
	Eventually(t, what, limit, func() (bool, string) {
		seen := missing()
		return seen == "", seen
	})
}
