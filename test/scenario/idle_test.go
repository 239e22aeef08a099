package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIdleQueueChangesNothing tells the stories about single pods once more, in a cluster
// that has a queue in which no pod waits: starts, evictions and reasons are the same to
// the byte.
func TestIdleQueueChangesNothing(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(files, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	some := 0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		story, steps, _ := strings.Cut(string(data), "\n\n")
		if strings.Contains(steps, "gang") || strings.Contains(steps, "queue") {
			continue
		}
		some++
		text := story + "\n\nqueue\nidle weight=7 priority=3 order=fifo\n----\nok\n\n" + steps
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if some < 30 {
		t.Fatalf("only %d stories are about single pods", some)
	}
	t.Run("core", func(t *testing.T) { Run(t, dir, NewCore()) })
	t.Run("plugin", func(t *testing.T) { Run(t, dir, NewPlugin(t)) })
}
