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
// file, so they agree with each other. Clusters know nothing of each other and mostly
// wait, so two of them share the files.
func TestScenarios(t *testing.T) {
	t.Run("core", func(t *testing.T) { Run(t, files, NewCore()) })
	t.Run("plugin", func(t *testing.T) { Run(t, files, NewPlugin(t)) })
	t.Run("cluster", func(t *testing.T) { Run(t, files, NewCluster(t), NewCluster(t)) })
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
