package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/internal/cli/see"
)

// run is the command with its exit code.
func run(stdin string, args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = Main(context.Background(), args, strings.NewReader(stdin), &o, &e)
	return code, o.String(), e.String()
}

// Mistakes in the command line exit with 2 and say where help is; kubectl's plugin speaks
// of kubectl.
func TestMainUsage(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
	if err := os.WriteFile("bad.yaml", []byte("pools: [{name: 3, count: -1}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
		{args: []string{"tangram", "why"}, code: see.ExitUsage, err: `want "tangram why POD|JOB|GANG", but 0 arguments were given`},
		{args: []string{"tangram", "completion", "nosuch"}, code: see.ExitUsage, err: `unknown command "nosuch"`},
		{args: []string{"tangram", "migrate", "-f", "none.yaml"}, code: see.ExitUsage, err: "-f: stat none.yaml"},
		{args: []string{"tangram", "migrate", "-f", "bad.yaml"}, code: see.ExitUsage, err: "bad.yaml:1: neither"},
		{args: []string{"tangram", "migrate", "-f", "-"}, code: see.ExitUsage, err: "no configuration of Volcano"},
		{args: []string{"tangram", "migrate", "check", "-f", "none.yaml"}, code: see.ExitUsage, err: "-f: stat none.yaml"},
		{args: []string{"tangram", "migrate", "check", "-f", "-"}, code: see.ExitOK},
		{args: []string{"tangram", "why", "x", "--server", "https://127.0.0.1:1", "--token", "x"}, code: see.ExitUnreachable, err: "does not answer"},
		{args: []string{"tangram", "diagnose", "x", "--server", "https://127.0.0.1:1", "--token", "x"}, code: see.ExitUnreachable, err: "connection refused"},
		{args: []string{"tangram", "migrate", "--server", "https://127.0.0.1:1", "--token", "x"}, code: see.ExitUnreachable, err: "connection refused"},
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
			code, out, errOut := run("", tt.args...)
			if code != tt.code || !strings.Contains(errOut, tt.err) || !strings.Contains(out, tt.out) {
				t.Errorf("exit code %d, want %d\nstdout %q, want %q in it\nstderr %q, want %q in it", code, tt.code, out, tt.out, errOut, tt.err)
			}
			if strings.Contains(errOut, "\x1b") {
				t.Errorf("an escape sequence: %q", errOut)
			}
		})
	}
}
