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
var openHoles = []string{
	"B",
	"H1-cpu",
	"H1-models",
	"H2",
	"H3-claims",
	"H3-resources",
	"H4-relabel",
	"H4-contradictions",
	"H4-volcano-queue",
	"H4-shares",
	"H4-mig",
	"H4-ascend",
	"H8",
	"H9-cordon",
	"H9-taint",
	"H9-selector",
	"H9-cpu",
	"H9-memory",
	"H9-ports",
	"H9-claim-missing",
	"H9-claim-unbound",
	"H9-anti-affinity",
	"H9-resource",
	"H9-gpus",
	"H9-visible-quota",
	"H9-visible-members",
	"H9-visible-no-queue",
	"H9-visible-ahead",
	"H9-events-without-queue",
	"H9-events-with-queue",
	"H12",
	"H14-fencing",
	"H14-healing",
	"H15-shares",
	"H16", // a rare race: the test passed each time it was run, the hole was seen by chaos runs
	"H17",
	"H19",
	"H20",
}

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
