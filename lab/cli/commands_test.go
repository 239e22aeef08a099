package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/internal/cli"
	"github.com/tangram-dev/tangram/internal/cli/see"
)

// Flags and files that cannot be used exit with 2, a cluster that does not run with 5; both
// say what is wrong.
func TestUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("bad.yaml", []byte("pools: [{name: 3, count: -1}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		code int
		err  string
	}{
		{args: []string{"up", "--fleet", "none.yaml"}, code: see.ExitUsage, err: "--fleet: open "},
		{args: []string{"up", "--fleet", "bad.yaml"}, code: see.ExitUsage, err: "--fleet: bad.yaml:1: pools[0].count: -1, want at least 1"},
		{args: []string{"up", "--detach", "--fleet", "bad.yaml"}, code: see.ExitUsage, err: "--fleet: bad.yaml:1: pools[0].count"},
		{args: []string{"up", "--operators", "nosuch"}, code: see.ExitUsage, err: `--operators: no operator "nosuch"`},
		{args: []string{"up", "--bare", "--demo"}, code: see.ExitUsage, err: "--bare, --demo"},
		{args: []string{"fault", "n", "--xid", "79"}, code: see.ExitUsage, err: "--device is missing"},
		{args: []string{"fault", "n"}, code: see.ExitUnreachable, err: "nothing runs in "},
		{args: []string{"drill", "--faults", "nosuch"}, code: see.ExitUsage, err: `--faults: "nosuch" is none of`},
		{args: []string{"bench", "--nodes", "-1"}, code: see.ExitUsage, err: "--nodes: must be at least 1"},
		{args: []string{"bench", "--gangs", "2", "--pods", "3"}, code: see.ExitUsage, err: "--pods: with --gangs"},
		{args: []string{"simulate", "pack", "--nodes", "none.csv", "--pods", "none.csv"}, code: see.ExitUsage, err: "--nodes: open none.csv"},
		{args: []string{"simulate", "pack", "--policy", "nosuch"}, code: see.ExitUsage, err: "nosuch"},
		{args: []string{"simulate", "queue", "--jobs", "bad.yaml"}, code: see.ExitUsage, err: "--jobs: bad.yaml:1: column"},
		{args: []string{"simulate", "queue", "--jobs", "x", "--policy", "fifo", "--aging", "1h"}, code: see.ExitUsage, err: "--aging is a setting of tangram"},
		{args: []string{"simulate", "starts", "--jobs", "bad.yaml"}, code: see.ExitUsage, err: "--jobs: bad.yaml:1: column"},
		{args: []string{"simulate", "starts", "--jobs", "bad.yaml", "--runtimes", "x"}, code: see.ExitUsage, err: "--runtimes"},
		{args: []string{"simulate", "generate", "--pods", "x"}, code: see.ExitUsage, err: "--nodes is missing: the file to write"},
		{args: []string{"simulate", "generate", "queue", "--jobs", "x", "--job-count", "0"}, code: see.ExitUsage, err: "--job-count 0"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := cli.Main(t.Context(), append([]string{"tangram"}, tt.args...), strings.NewReader(""), &out, &errOut, Commands()...)
			if code != tt.code || !strings.Contains(errOut.String(), tt.err) {
				t.Errorf("exit code %d, want %d\nstderr %q, want %q in it", code, tt.code, errOut.String(), tt.err)
			}
		})
	}
}
