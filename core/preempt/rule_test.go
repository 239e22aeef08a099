package preempt_test

import (
	"os"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/core/preempt"
)

// TestProtections: every rule of preemption has its name and words, and stands in the table of
// the concepts.
func TestProtections(t *testing.T) {
	page, err := os.ReadFile("../../docs/concepts/gangs.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for p := preempt.Itself; p <= preempt.Leaving; p++ {
		switch {
		case p.String() == "" || p.Says() == "":
			t.Errorf("protection %d has no name or no words in core/preempt/rule.go", p)
		case names[p.String()]:
			t.Errorf("protection %s is there twice", p)
		case !strings.Contains(string(page), "| `"+p.String()+"` | "+p.Says()):
			t.Errorf("docs/concepts/gangs.md has no row | `%s` | %s", p, p.Says())
		}
		names[p.String()] = true
	}
}
