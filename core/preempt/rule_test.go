package preempt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/core/preempt"
)

// TestProtections: every rule of preemption has its name, its words and its test of a gang,
// stands in the table of the concepts, and is shown by a story that names it.
func TestProtections(t *testing.T) {
	page, err := os.ReadFile("../../docs/concepts/gangs.md")
	if err != nil {
		t.Fatal(err)
	}
	var stories strings.Builder
	files, err := filepath.Glob("../stories/testdata/*.txt")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		stories.Write(text)
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("%d stories, %v", len(files), err)
	}
	names := map[string]bool{}
	for p := preempt.Itself; p <= preempt.Last; p++ {
		switch {
		case p.String() == "" || p.Says() == "":
			t.Errorf("protection %d has no name or no words in core/preempt/rule.go", p)
		case !preempt.Judged(p):
			t.Errorf("protection %s: its row in core/preempt/rule.go does not say when it holds", p)
		case names[p.String()]:
			t.Errorf("protection %s is there twice", p)
		case !strings.Contains(string(page), "| `"+p.String()+"` | "+p.Says()):
			t.Errorf("docs/concepts/gangs.md has no row | `%s` | %s", p, p.Says())
		}
		names[p.String()] = true
		if elsewhere[p] == "" && !strings.Contains(stories.String(), "("+p.String()+")") {
			t.Errorf("no story of core/stories/testdata has (%s) in its comment: show the protection there", p)
		}
	}
}

// elsewhere are protections that no story shows, and what does.
var elsewhere = map[preempt.Protection]string{
	preempt.Itself:  "every eviction of core/engine's tests: a gang that starts is no victim of its own",
	preempt.Company: "internal/kube/engine/company_test.go",
	preempt.Leaving: "core/engine/leave_test.go",
}
