package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files are the stories.
const files = "../scenarios"

// TestScenarios tells every story to every engine. All must give the bytes in the
// file, so they agree with each other. Engines know nothing of each other and mostly
// wait, so they listen side by side, and two of a kind that takes long.
func TestScenarios(t *testing.T) {
	for name, engines := range map[string]func(*testing.T) []Engine{
		"core":    func(*testing.T) []Engine { return []Engine{NewCore()} },
		"plugin":  func(t *testing.T) []Engine { return []Engine{NewPlugin(t), NewPlugin(t)} },
		"cluster": func(t *testing.T) []Engine { return []Engine{NewCluster(t), NewCluster(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			if !rewriting() {
				t.Parallel()
			}
			Run(t, files, engines(t)...)
		})
	}
}

// manual is the language's description.
const manual = "../../docs/guides/scenarios.md"

// TestManual runs the manual's example, and looks for every verb in it.
func TestManual(t *testing.T) {
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	for name := range verbs {
		if !strings.Contains(string(text), "| `"+name) {
			t.Errorf("%s does not say what %s does", manual, name)
		}
	}
	_, example, _ := strings.Cut(string(text), "```scenario\n")
	example, _, found := strings.Cut(example, "```\n")
	if !found {
		t.Fatalf("%s has no example", manual)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "manual.txt"), []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	Run(t, dir, NewCore())
}
