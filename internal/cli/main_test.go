package cli

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tangram-dev/tangram/internal/cli/see"
)

var update = flag.Bool("update", false, "write docs/reference/command-line.md")

// The page is what the commands say.
func TestReferencePage(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "reference", "command-line.md")
	if *update {
		if err := os.WriteFile(page, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), Reference()); diff != "" {
		t.Errorf("%s is out of date; go test ./internal/cli -run ReferencePage -update (-page +commands):\n%s", page, diff)
	}
}

// Every command has a line of the guide, and every exit code.
func TestGuideNamesCommands(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "command-line.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range New().Commands() {
		if c.GroupID != "" && !bytes.Contains(guide, []byte("`"+c.Name()+"`")) && !bytes.Contains(guide, []byte("tangram "+c.Name())) {
			t.Errorf("the guide does not name %s", c.Name())
		}
	}
}

func runMain(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = Main(context.Background(), args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// Mistakes in the command line exit with 2 and say where help is; kubectl's plugin speaks
// of kubectl.
func TestMainUsage(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
	tests := []struct {
		args []string
		code int
		err  string
		out  string
	}{
		{args: []string{"tangram", "nonsense"}, code: see.ExitUsage, err: `unknown command "nonsense"`},
		{args: []string{"tangram", "why"}, code: see.ExitUsage, err: "See 'tangram why --help'."},
		{args: []string{"tangram", "jobs", "--nonsense"}, code: see.ExitUsage, err: "unknown flag: --nonsense"},
		{args: []string{"tangram", "jobs", "-o", "xml"}, code: see.ExitUsage, err: "none of json, yaml, wide"},
		{args: []string{"tangram", "whatif"}, code: see.ExitUsage, err: `required flag(s) "filename" not set`},
		{args: []string{"tangram", "queues", "x"}, code: see.ExitUsage, err: `tangram queues takes no arguments, but "x" was given`},
		{args: []string{"tangram", "jobs"}, code: see.ExitUsage, err: "there is no kubeconfig"},
		{args: []string{"tangram", "whatif", "-f", "."}, code: see.ExitUsage, err: "is a directory"},
		{args: []string{"tangram", "why", "x", "--dump", "."}, code: see.ExitUsage, err: "--dump ."},
		{args: []string{"tangram", "jobs", "--\x1b[2J"}, code: see.ExitUsage, err: `\x1b[2J`},
		{args: []string{"tangram", "version"}, out: "tangram "},
		{args: []string{"/usr/bin/kubectl-tangram", "why", "--help"}, out: "kubectl tangram why POD|JOB|GANG"},
		{args: []string{"kubectl-tangram", "whatif", "--help"}, out: "| kubectl tangram whatif -f -"},
		{args: []string{"kubectl-tangram", "why"}, code: see.ExitUsage, err: "See 'kubectl tangram why --help'."},
		{args: []string{"kubectl_complete-tangram", "top", "d"}, out: "devices"},
		{args: []string{"tangram", "completion", "bash"}, out: "__start_tangram"},
		{args: []string{"tangram", "completion", "fish"}, out: "complete -c tangram"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			code, out, errOut := runMain(tt.args...)
			if code != tt.code || !strings.Contains(errOut, tt.err) || !strings.Contains(out, tt.out) {
				t.Errorf("exit code %d, want %d\nstdout %q, want %q in it\nstderr %q, want %q in it", code, tt.code, out, tt.out, errOut, tt.err)
			}
			if strings.Contains(errOut, "\x1b") {
				t.Errorf("an escape sequence: %q", errOut)
			}
		})
	}
}
