package see_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/cli/see"
	"github.com/tangram-dev/tangram/internal/terminal"
	"github.com/tangram-dev/tangram/test/asktest"
)

var update = flag.Bool("update", false, "write what commands print into testdata/golden")

func TestMain(m *testing.M) {
	flag.Parse()
	time.Local = time.UTC // what is printed must not depend on where the test runs
	os.Exit(m.Run())
}

// now is 4 seconds after the answers of testdata were given.
var now = time.Date(2026, 11, 16, 9, 41, 11, 0, time.UTC)

// run is one command, as a shell would run it.
type run struct {
	args     []string
	terminal bool
	columns  int // of the terminal; 0: 100
	in       string
	config   see.Config
	now      time.Time // zero: now
}

type result struct {
	code        int
	out, errOut string
}

// do runs a command against a cluster.
func (r run) do(t *testing.T, c *asktest.Cluster) result {
	t.Helper()
	var out, errOut bytes.Buffer
	config := r.config
	if r.now.IsZero() {
		r.now = now
	}
	columns := r.columns
	if columns == 0 {
		columns = 100
	}
	config.Screen = func(*cobra.Command) *terminal.Screen {
		s := terminal.New(strings.NewReader(r.in), &out, &errOut)
		s.Now = func() time.Time { return r.now }
		if r.terminal {
			s.Terminal, s.Color = true, true
			s.Size = func() (int, int) { return columns, 30 }
		}
		return s
	}
	root := &cobra.Command{Use: "tangram", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(see.Commands(config)...)
	args := r.args
	if c != nil {
		args = append(append([]string(nil), args...), "--kubeconfig", c.Kubeconfig)
	}
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errOut)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintf(&errOut, "tangram: %v\n", err)
	}
	return result{see.ExitCode(err), out.String(), errOut.String()}
}

func check(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (go test -update accepts it): %s", file, diff)
	}
}

// TestTables: every command prints every answer as its golden file shows, with its exit
// code and what it asked for.
func TestTables(t *testing.T) {
	manifest := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(manifest, []byte("kind: Job\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Three replicas of a Deployment: one starts, two wait alike.
	const (
		replica = `"kind":"ReplicaSet","owner":"web-1","queue":"default","priority":0,"submitted":"2026-11-16T09:41:07Z","need":1,"exist":1,"milli":1000,`
		full    = `"start":{"known":"unknown","because":"x"},"reason":{"code":"Nodes","class":"Capacity","fit":0,"text":"0/1 nodes fit"},"helps":[{"who":"time","text":"Wait."}],`
		alike0  = `{"gang":{"namespace":"ml-team","name":"web-1-a",` + replica + `"phase":"Starting","placed":1},"start":{"known":"now","nodes":["n0"]},"members":[{"pod":{"namespace":"ml-team","name":"web-1-a"},"node":"n0","state":"starting"}]}`
		alike1  = `{"gang":{"namespace":"ml-team","name":"web-1-b",` + replica + `"phase":"Waiting","placed":0},` + full + `"members":[{"pod":{"namespace":"ml-team","name":"web-1-b"},"state":"waiting"}]}`
		alike2  = `{"gang":{"namespace":"ml-team","name":"web-1-c",` + replica + `"phase":"Waiting","placed":0},` + full + `"members":[{"pod":{"namespace":"ml-team","name":"web-1-c"},"state":"waiting"}]}`
	)
	const (
		running  = `{"at":"2026-11-16T09:41:07Z","found":true,"gang":{"namespace":"ml-team","name":"notebook","kind":"Pod","queue":"default","priority":0,"phase":"Running","submitted":"2026-11-13T09:41:06Z","need":1,"exist":1,"placed":1,"milli":250},"reason":{"code":"","class":"","text":"","fit":0},"text":"notebook runs on a100-0 since 3 days.","helps":[],"start":{"known":"now"}}`
		reserved = `{"at":"2026-11-16T09:41:07Z","found":true,"gang":{"namespace":"ml-team","name":"train","kind":"RayCluster","owner":"search","queue":"training","priority":10,"phase":"Waiting","submitted":"2026-11-16T07:38:03Z","need":8,"exist":8,"placed":0,"milli":64000,"position":1},"reason":{"code":"Insufficient","class":"Capacity","text":"x","fit":2},"text":"train waits for 8 nodes with 8 free GPUs each; 2 have them.","helps":[{"who":"time","text":"2 nodes are expected to be free at 10:03"}],"start":{"known":"reserved","at":"2026-11-16T10:03:30Z","because":"ml-team/long ends by then","nodes":["a100-0","a100-1"]}}`
		unknown  = `{"at":"2026-11-16T09:41:07Z","found":false,"gang":{"namespace":"ml-team","name":"web","kind":"","queue":"","priority":0,"phase":"","submitted":"0001-01-01T00:00:00Z","need":0,"exist":0,"placed":0,"milli":0},"reason":{"code":"","class":"","text":"","fit":0},"text":"pod ml-team/web names schedulerName default-scheduler, which is not Tangram's.","helps":[{"who":"owner","text":"set schedulerName: gpu-scheduler"}],"start":{"known":"unknown"}}`
		refused  = `{"at":"2026-11-16T09:41:07Z","gangs":[],"refused":[{"object":"Pod ml-team/x","field":"spec.containers[0].resources","message":"half a GPU of nvidia.com/gpu"}]}`
		alike    = `{"at":"2026-11-16T09:41:07Z","gangs":[` + alike0 + `,` + alike1 + `,` + alike2 + `]}`
		hidden   = `{"at":"2026-11-16T09:41:07Z","items":[],"levels":[],"version":1,"hidden":12}`
		unpriced = `{"at":"2026-11-16T09:41:07Z","since":"2026-11-16T09:11:07Z","by":["queue","model"],"items":[{"queue":"training","model":"a100-80gb-sxm4","milli":16000,"milliSeconds":28800000}],"hidden":{"milli":0,"milliSeconds":0},"total":{"milli":16000,"milliSeconds":28800000}}`
	)
	type test struct {
		name     string
		args     string
		in       string
		terminal bool
		answers  map[string]string // in place of testdata's
		folder   string            // empty: testdata/answers
	}
	tests := []test{
		{name: "why", args: "why too-large"},
		{name: "why-wide", args: "why pod/too-large -n other -o wide"},
		{name: "why-terminal", args: "why too-large", terminal: true},
		{name: "why-exit-code", args: "why pod too-large --exit-code"},
		{name: "why-running", args: "why notebook --exit-code", answers: map[string]string{query.PathWhy: running}},
		{name: "why-reserved", args: "why raycluster.ray.io/search --exit-code", answers: map[string]string{query.PathWhy: reserved}},
		{name: "why-unknown", args: "why web", answers: map[string]string{query.PathWhy: unknown}},
		{name: "why-json", args: "why too-large -o json"},
		{name: "why-yaml", args: "why too-large -o yaml"},
		{name: "whatif", args: "whatif -f " + manifest},
		{name: "whatif-stdin", args: "whatif -f - --exit-code", in: "kind: Pod\n"},
		{name: "whatif-refused", args: "whatif -f -", in: "kind: Pod\n", answers: map[string]string{query.PathWhatIf: refused}},
		{name: "whatif-alike", args: "whatif -f -", in: "kind: Deployment\n", answers: map[string]string{query.PathWhatIf: alike}},
		{name: "why-short-kind", args: "why rs/web-1", answers: map[string]string{query.PathWhy: running}},
		{name: "jobs-hidden", args: "jobs -n other", answers: map[string]string{query.PathGangs: `{"at":"2026-11-16T09:41:07Z","items":[],"hidden":{"Running":3}}`}},
		{name: "explain", args: "explain train-0"},
		{name: "explain-wide", args: "explain train-0 -o wide"},
		{name: "jobs", args: "jobs"},
		{name: "jobs-terminal", args: "jobs", terminal: true},
		{name: "jobs-wide", args: "jobs -A -o wide --queue training --phase waiting --limit 3"},
		{name: "jobs-none", args: "jobs -n empty", answers: map[string]string{query.PathGangs: `{"at":"2026-11-16T09:41:07Z","items":[]}`}},
		{name: "queues", args: "queues"},
		{name: "queues-wide", args: "queues -o wide"},
		{name: "top-fleet", args: "top"},
		{name: "top-fleet-terminal", args: "top --once", terminal: true},
		{name: "top-nodes", args: "top nodes"},
		{name: "top-nodes-wide", args: "top nodes t4-0 -o wide"},
		{name: "top-nodes-hidden", args: "top nodes", answers: map[string]string{query.PathNodes: hidden}},
		{name: "top-devices", args: "top devices"},
		{name: "top-devices-wide", args: "top devices a100-0 -o wide"},
		{name: "top-queues", args: "top queues"},
		{name: "cost", args: "cost"},
		{name: "cost-wide", args: "cost -o wide"},
		{name: "cost-unpriced", args: "cost --by queue,model", answers: map[string]string{query.PathUsage: unpriced}},
		{name: "dump-stdout", args: "dump -f -"},
	}
	// Answers of a real scheduler: those of tangram up --demo (of nodes.json three nodes).
	for _, args := range []string{"why too-large", "why too-large -o wide", "explain multi-gpu", "jobs -A", "queues", "top", "top nodes", "top devices", "cost"} {
		tests = append(tests, test{name: "demo-" + strings.ReplaceAll(args, " ", "-"), args: args, folder: "testdata/demo"})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			folder, at := "testdata/answers", now
			if tt.folder != "" {
				folder, at = tt.folder, time.Date(2026, 11, 16, 10, 31, 40, 0, time.UTC)
			}
			c := asktest.New(t, folder)
			for path, body := range tt.answers {
				c.Replace(path, asktest.Answer{Body: body})
			}
			r := run{args: strings.Fields(tt.args), terminal: tt.terminal, in: tt.in, now: at}.do(t, c)
			var b strings.Builder
			fmt.Fprintf(&b, "$ tangram %s\n%s", strings.ReplaceAll(tt.args, manifest, "job.yaml"), r.out)
			if r.errOut != "" {
				fmt.Fprintf(&b, "[stderr]\n%s", r.errOut)
			}
			fmt.Fprintf(&b, "[exit code %d]\n", r.code)
			for _, q := range c.Requests() {
				fmt.Fprintf(&b, "[asked] %s %s\n", q.Method, q.URI)
				if q.Body != "" {
					fmt.Fprintf(&b, "[body] %s\n", strings.TrimSpace(q.Body))
				}
			}
			text := strings.ReplaceAll(b.String(), "\x1b", "␛")
			if !tt.terminal && strings.Contains(text, "␛") {
				t.Error("an escape sequence outside a terminal")
			}
			check(t, tt.name, text)
		})
	}
}
