package explain_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/explain"
)

// TestIdleClaims: claims that no pod uses come first among what would help, with the command
// of the first; a name that could mean something to a shell has none.
func TestIdleClaims(t *testing.T) {
	for _, tt := range []struct {
		idle explain.IdleClaims
		want []explain.Help
	}{
		{explain.IdleClaims{}, nil},
		{explain.IdleClaims{Names: []string{"ml/a"}, Seen: 1, Devices: 1}, []explain.Help{
			{Who: explain.Owner, Text: "1 GPU is held by 1 ResourceClaim that no pod uses: ml/a. Delete what is not needed.", Command: "kubectl -n ml delete resourceclaim a"}}},
		{explain.IdleClaims{Names: []string{"x/a", "x/b"}, Seen: 5, Devices: 12, Hidden: 2, HiddenDevices: 3}, []explain.Help{
			{Who: explain.Administrator, Text: "12 GPUs are held by 5 ResourceClaims that no pod uses: x/a, x/b and 3 more. Delete what is not needed.", Command: "kubectl -n x delete resourceclaim a"},
			{Who: explain.Administrator, Text: "3 GPUs are held by 2 ResourceClaims of other namespaces that no pod uses."}}},
		{explain.IdleClaims{Names: []string{"x/$(reboot)"}, Seen: 1, Devices: 1}, []explain.Help{
			{Who: explain.Administrator, Text: "1 GPU is held by 1 ResourceClaim that no pod uses: x/$(reboot). Delete what is not needed."}}},
	} {
		c := caseOf(explain.TooFew)
		before := len(explain.Helps(c))
		c.Idle = tt.idle
		got := explain.Helps(c)
		if len(got) != min(6, before+len(tt.want)) {
			t.Errorf("%+v: %d helps, %d without", tt.idle, len(got), before)
		}
		for i, h := range tt.want {
			if got[i] != h {
				t.Errorf("got %+v, want %+v", got[i], h)
			}
		}
	}
}
