package explain

import "testing"

// TestEveryCodeIsListed: a code has a name of its own, a cure and words.
func TestEveryCodeIsListed(t *testing.T) {
	seen := map[string]Code{}
	for c := Code(1); c < numCodes; c++ {
		if codes[c].name == "" || codes[c].cure == 0 {
			t.Errorf("code %d has no name or no cure: it must be listed in codes", c)
			continue
		}
		if other, twice := seen[c.String()]; twice {
			t.Errorf("codes %d and %d are both %s", c, other, c)
		}
		seen[c.String()] = c
		if got := (Refusal{Code: c}).String(); got == (Refusal{}).String() {
			t.Errorf("%s has no words: %q", c, got)
		}
	}
	if Code(0).String() != "Unspecified" || numCodes.String() != "Unspecified" || Code(0).Permanent() || numCodes.Permanent() {
		t.Error("what is no code has a name, or is called permanent")
	}
}

// TestPermanentCodes: which refusals no holder's leaving cures is part of the
// contract; eviction and "can never fit" rely on it.
func TestPermanentCodes(t *testing.T) {
	for c := Code(1); c < numCodes; c++ {
		want := c != Taken && c != TooClose && c != FreeApart
		if got := c.Permanent(); got != want {
			t.Errorf("%s: permanent %v, want %v", c, got, want)
		}
	}
}
