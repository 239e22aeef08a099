package ledger_test

import (
	"slices"
	"testing"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// assumed is a claim as this process makes it when it decides on a place.
func assumed(c ledger.Claim) ledger.Claim {
	c.Assumed = true
	return c
}

// TestStanding: a record that names a held device takes nothing from its holder,
// whatever its times and name are, whichever of the two is changed, and however. Only
// where this process gave the device away itself it is certain which record is wrong.
func TestStanding(t *testing.T) {
	slice := func(holder string, device, start int) ledger.Claim {
		return ledger.Claim{Holder: model.HolderID(holder), Vendor: model.NVIDIA, Parts: []ledger.HeldPart{
			{Known: true, Device: ledger.DeviceRef{Index: device}, Start: start, Part: model.Part{Kind: model.Slice, Profile: "3g.20gb"}},
		}}
	}
	named := func(c ledger.Claim, uuid string) ledger.Claim {
		c.Devices = []ledger.DeviceRef{{Index: c.Devices[0].Index, UUID: uuid}}
		return c
	}
	type masks map[string]model.Mask
	tests := []struct {
		name string
		puts []ledger.Claim
		want masks
		// contested is the holder that does not get what its record names; empty for none.
		contested string
		certain   bool
	}{
		{"seen first, younger by its times and name", []ledger.Claim{claim("z", 9, 1, 2), claim("a", 1, 1, 2)}, masks{"z": 0b100, "a": 0b1}, "a", false},
		{"seen first, and read again", []ledger.Claim{claim("z", 9, 1, 2), claim("a", 1, 1, 2), claim("z", 9, 1, 2)}, masks{"z": 0b100, "a": 0b1}, "a", false},
		{"given by this process, confirmed before the other came", []ledger.Claim{assumed(claim("z", 0, 1, 2)), claim("z", 9, 1, 2), claim("a", 1, 1, 2)}, masks{"z": 0b100, "a": 0b1}, "a", true},
		{"given by this process, the other came before it was confirmed", []ledger.Claim{assumed(claim("z", 0, 1, 2)), claim("a", 1, 1, 2), claim("z", 9, 1, 2)}, masks{"z": 0b100, "a": 0b1}, "a", true},
		{"only promised: planned anew, no record is wrong", []ledger.Claim{assumed(claim("z", 0, 1, 2)), claim("a", 1, 1, 2)}, masks{"z": 0b1, "a": 0b100}, "", false},
		{"edited into a held device", []ledger.Claim{claim("old", 1, 1, 0), claim("z", 9, 1, 2), claim("old", 1, 1, 2)}, masks{"z": 0b100, "old": 0b1}, "old", false},
		{"edited into a given device", []ledger.Claim{claim("old", 1, 1, 0), assumed(claim("z", 0, 1, 2)), claim("z", 9, 1, 2), claim("old", 1, 1, 2)}, masks{"z": 0b100, "old": 0b1}, "old", true},
		{"edited, then read again", []ledger.Claim{claim("old", 1, 1, 0), claim("z", 9, 1, 2), claim("old", 1, 1, 2), claim("old", 1, 1, 2)}, masks{"z": 0b100, "old": 0b1}, "old", false},
		{"edited in by a pod that had no record", []ledger.Claim{claim("old", 1, 1), claim("z", 9, 1, 2), claim("old", 1, 1, 2)}, masks{"z": 0b100, "old": 0b1}, "old", false},
		{"edited by the UUID alone", []ledger.Claim{named(claim("old", 1, 1, 0), "n-0"), named(claim("z", 9, 1, 2), "n-2"), named(claim("old", 1, 1, 0), "n-2")}, masks{"z": 0b100, "old": 0b1}, "old", false},
		{"a given pod that is edited into a held device has no right of this process", []ledger.Claim{claim("z", 9, 1, 2), assumed(claim("own", 0, 1, 1)), claim("own", 9, 1, 2)}, masks{"z": 0b100, "own": 0b1}, "own", false},
		{"a device that a given pod was edited into is not given", []ledger.Claim{assumed(claim("own", 0, 1, 1)), claim("own", 9, 1, 2), claim("z", 9, 1, 2)}, masks{"own": 0b100, "z": 0b1}, "z", false},
		{"corrected in part: the rest stays, though another waits for it", []ledger.Claim{claim("z", 9, 2, 0, 1), claim("a", 1, 1, 1), claim("z", 9, 2, 1, 2)}, masks{"z": 0b110, "a": 0b1}, "a", false},
		{"corrected in part, the new device is another's", []ledger.Claim{claim("z", 9, 2, 0, 1), claim("a", 1, 1, 2), claim("z", 9, 2, 1, 2)}, masks{"a": 0b100, "z": 0b11}, "z", false},
		{"two exchange devices", []ledger.Claim{claim("a", 1, 1, 0), claim("b", 2, 1, 1), claim("b", 2, 1, 0), claim("a", 1, 1, 1)}, masks{"a": 0b10, "b": 0b1}, "", false},
		{"slices beside each other", []ledger.Claim{slice("a", 3, 0), slice("b", 3, 4)}, masks{"a": 0b1000, "b": 0b1000}, "", false},
		{"a slice is edited into another's place", []ledger.Claim{slice("old", 3, 0), slice("z", 3, 4), slice("old", 3, 4)}, masks{"z": 0b1000}, "old", false},
		{"moved to another node and back: it comes last", []ledger.Claim{claim("a", 1, 1, 2), claim("z", 9, 1, 2), claim("elsewhere", 0, 0), claim("a", 1, 1, 2)}, masks{"z": 0b100, "a": 0b1}, "a", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := coretest.Node("n").GPUs(4, "A100-40GB").Cuttable().Build()
			for i := range n.Devices {
				n.Devices[i].UUID = "n-" + string(rune('0'+i))
			}
			l := coretest.Ledger(t, n)
			for _, c := range tt.puts {
				if c.Holder == "elsewhere" {
					l.Put("other", claim("a", 1, 1, 2))
					continue
				}
				l.Put("n", c)
			}
			for h, want := range tt.want {
				if got := held(l, h); got != want {
					t.Errorf("%s holds %b, want %b", h, got, want)
				}
			}
			var want []ledger.Contested
			for _, c := range l.Contested("n") {
				want = append(want, ledger.Contested{Holder: model.HolderID(tt.contested), Index: c.Index, Certain: tt.certain})
			}
			if got := l.Contested("n"); !slices.Equal(got, want) || (tt.contested == "") != (len(got) == 0) {
				t.Errorf("contested: %+v, want %q, certain %v", got, tt.contested, tt.certain)
			}
			if err := l.Audit(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNoHolderIsDisplaced: nothing that others put takes a named device away from a holder
// that has it and does not change.
func TestNoHolderIsDisplaced(t *testing.T) {
	const devices = 4
	for seed := range 2000 {
		l := coretest.Ledger(t, coretest.Node("n").GPUs(devices, "A100").Build())
		l.Put("n", claim("honest", 1<<40, 2, seed%devices, (seed+1)%devices))
		want := held(l, "honest")
		x := uint32(seed)*2654435761 + 1
		for range 12 {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
			c := claim(string(rune('a'+x%3)), int64(x>>8%4), 1, int(x>>4%devices))
			c.Assumed = x>>20%3 == 0
			l.Put("n", c)
			if got := held(l, "honest"); got != want {
				t.Fatalf("seed %d: holds %b, held %b", seed, got, want)
			}
		}
	}
}
