package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/internal/cli"
	labcli "github.com/tangram-dev/tangram/lab/cli"
)

var (
	metricName = regexp.MustCompile(`\b(?:tangram_[a-z0-9_]+|DCGM_[A-Z0-9_]+)\b`)
	commands   = []string{"kubectl", "bin/tangram", "bin/promtool", "nvidia-smi", "dmesg", "systemctl", "journalctl"}
)

// TestRunbooks: each page tells what the alert means, how to check and what to do, with
// commands that exist and about metrics that exist; and each belongs to an alert.
func TestRunbooks(t *testing.T) {
	known := exported()
	names := map[string]bool{"README": true}
	for _, a := range alerts(t) {
		names[a.Alert] = true
	}
	paths, err := filepath.Glob(filepath.Join(runbooks, "*.md"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, %d pages", err, len(paths))
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			page := string(data)
			if !names[name] {
				t.Error("there is no such alert")
			}
			for _, m := range metricName.FindAllString(page, -1) {
				if _, ok := known[m]; !ok && !slices.Contains(notOurs, m) {
					t.Errorf("no program exports %s", m)
				}
			}
			if name == "README" {
				return
			}
			if !strings.HasPrefix(page, "# "+name+"\n") {
				t.Error("does not begin with its name")
			}
			for _, heading := range []string{"## Meaning", "## Check", "## Do"} {
				_, rest, found := strings.Cut(page, "\n"+heading+"\n")
				text, _, _ := strings.Cut(rest, "\n## ")
				if !found || len(strings.TrimSpace(text)) < 40 {
					t.Errorf("says next to nothing under %q", heading)
				}
			}
			if !strings.Contains(page, "```") {
				t.Error("has no command to check with")
			}
			for i, block := range strings.Split(page, "```") {
				if i%2 == 1 {
					checkCommands(t, block)
				}
			}
		})
	}
}

// notOurs are names that pages mention because they do not exist, or not here.
var notOurs = []string{"DCGM_FI_DEV_NVLINK_BANDWIDTH"}

func checkCommands(t *testing.T, block string) {
	for line := range strings.SplitSeq(strings.TrimSpace(block), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") || line[0] == ' ' {
			continue
		}
		if !slices.Contains(commands, words[0]) {
			t.Errorf("%q: is no command that is known here", line)
		}
		if words[0] == "bin/tangram" {
			if cmd, _, err := cli.New(labcli.Commands()...).Find(words[1:2]); err != nil || cmd.Name() != words[1] {
				t.Errorf("%q: tangram has no such command", line)
			}
		}
	}
}
