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
		{args: []string{"tangram", "up", "--fleet", "none.yaml"}, code: see.ExitUsage, err: "--fleet: open "},
		{args: []string{"tangram", "up", "--fleet", "bad.yaml"}, code: see.ExitUsage, err: "--fleet: bad.yaml:1: pools[0].count: -1 is not between"},
		{args: []string{"tangram", "up", "--detach", "--fleet", "bad.yaml"}, code: see.ExitUsage, err: "--fleet: bad.yaml:1: pools[0].count"},
		{args: []string{"tangram", "up", "--operators", "nosuch"}, code: see.ExitUsage, err: `--operators: no operator "nosuch"`},
		{args: []string{"tangram", "up", "--bare", "--demo"}, code: see.ExitUsage, err: "--bare, --demo"},
		{args: []string{"tangram", "fault", "n", "--xid", "79"}, code: see.ExitUsage, err: "--device is missing"},
		{args: []string{"tangram", "fault", "n"}, code: see.ExitUnreachable, err: "nothing runs in "},
		{args: []string{"tangram", "drill", "--faults", "nosuch"}, code: see.ExitUsage, err: `--faults: "nosuch" is none of`},
		{args: []string{"tangram", "bench", "--nodes", "-1"}, code: see.ExitUsage, err: "--nodes: must be at least 1"},
		{args: []string{"tangram", "bench", "--gangs", "2", "--pods", "3"}, code: see.ExitUsage, err: "--pods: with --gangs"},
		{args: []string{"tangram", "simulate", "pack", "--nodes", "none.csv", "--pods", "none.csv"}, code: see.ExitUsage, err: "--nodes: open none.csv"},
		{args: []string{"tangram", "simulate", "pack", "--policy", "nosuch"}, code: see.ExitUsage, err: "nosuch"},
		{args: []string{"tangram", "simulate", "queue", "--jobs", "bad.yaml"}, code: see.ExitUsage, err: "--jobs: bad.yaml:1: column"},
		{args: []string{"tangram", "simulate", "queue", "--jobs", "x", "--policy", "fifo", "--aging", "1h"}, code: see.ExitUsage, err: "--aging is a setting of tangram"},
		{args: []string{"tangram", "simulate", "starts", "--jobs", "bad.yaml"}, code: see.ExitUsage, err: "--jobs: bad.yaml:1: column"},
		{args: []string{"tangram", "simulate", "starts", "--jobs", "bad.yaml", "--runtimes", "x"}, code: see.ExitUsage, err: "--runtimes"},
		{args: []string{"tangram", "simulate", "generate", "--pods", "x"}, code: see.ExitUsage, err: "--nodes and --pods are needed"},
		{args: []string{"tangram", "simulate", "generate", "queue", "--jobs", "x", "--job-count", "0"}, code: see.ExitUsage, err: "--job-count 0"},
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
