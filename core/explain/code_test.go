package explain_test

import (
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/core/explain"
)

// TestEveryCode: every code has its row (name, class, permanence) and its words. A
// code that is added without them fails here.
func TestEveryCode(t *testing.T) {
	names := map[string]bool{}
	for c := explain.Code(1); c < explain.Codes; c++ {
		name := c.String()
		if name == "Unspecified" || names[name] {
			t.Errorf("code %d has no name of its own: %q", c, name)
		}
		names[name] = true
		if c.Class() == 0 || c.Permanence() == 0 {
			t.Errorf("%s: class %d, permanence %d", name, c.Class(), c.Permanence())
		}
		if c.Class() == explain.OfNode {
			var tally explain.Tally
			tally.Add(explain.Refusal{Code: c, Need: 2, Best: 1, Detail: "x"}, 3)
			if text := tally.String(); !strings.HasPrefix(text, "0/3 nodes fit: 3 ") || strings.Contains(text, "unknown") {
				t.Errorf("%s: %q", name, text)
			}
			continue
		}
		r := explain.Reason{Code: c, Need: 2, Level: "rack", Queue: "q", Namespace: "n", Resource: "cpu", Detail: "x"}
		if text := r.String(); text == "" || text == "waits" {
			t.Errorf("%s has no words", name)
		}
	}
	if got := explain.Codes.String(); got != "Unspecified" {
		t.Errorf("beyond the last code: %q", got)
	}
}
