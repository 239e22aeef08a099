package e2e

import (
	"os"
	"slices"
	"testing"
)

// openHoles are the holes of issue 9 that the scheduler still has. The tests named
// hole_*_test.go describe the right behaviour; those of an open hole are skipped, so
// that the suite stays green until the hole is closed. Closing a hole means removing
// its name here: the test is from then on a test like any other.
//
// TANGRAM_HOLES=1 runs them all, to see which still fail and how.
var openHoles = []string{}

// knownHole skips a test whose hole is still open.
func knownHole(t *testing.T, name string) {
	t.Helper()
	if isOpen(name) {
		t.Skipf("hole %s is open: see holes_open_test.go", name)
	}
}

// isOpen says whether the test of a hole is to be skipped.
func isOpen(name string) bool {
	return slices.Contains(openHoles, name) && os.Getenv("TANGRAM_HOLES") == ""
}
