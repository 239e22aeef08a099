package see_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/cli/see"
	"github.com/tangram-dev/tangram/test/asktest"
)

func failure(status int, reason, message string) asktest.Answer {
	return asktest.Answer{Status: status, Body: fmt.Sprintf(`{"status":%d,"reason":%q,"message":%q}`, status, reason, message)}
}

// TestExitCodes: what scripts can tell apart.
func TestExitCodes(t *testing.T) {
	tests := []struct {
		name    string
		args    string
		change  func(t *testing.T, c *asktest.Cluster)
		want    int
		wantErr string
	}{
		{name: "fine", args: "queues", want: see.ExitOK},
		{name: "no such pod", args: "why x", want: see.ExitNotFound, wantErr: "there is no pod x",
			change: func(_ *testing.T, c *asktest.Cluster) {
				c.Replace(query.PathWhy, failure(404, "NotFound", "there is no pod x"))
			}},
		{name: "forbidden", args: "dump -f -", want: see.ExitForbidden, wantErr: `user "ada" may not get`,
			change: func(_ *testing.T, c *asktest.Cluster) {
				c.Replace(query.PathDump, failure(403, "Forbidden", `user "ada" may not get /query/v1/dump`))
			}},
		{name: "bad token", args: "jobs --token wrong", want: see.ExitForbidden},
		{name: "Lease forbidden", args: "jobs", want: see.ExitForbidden, wantErr: "find the scheduler",
			change: func(_ *testing.T, c *asktest.Cluster) { c.LeaseStatus = http.StatusForbidden }},
		{name: "no Lease", args: "jobs", want: see.ExitUnreachable, wantErr: "there is no Lease kube-system/gpu-scheduler",
			change: func(_ *testing.T, c *asktest.Cluster) { c.Lease = nil }},
		{name: "scheduler gone", args: "jobs", want: see.ExitUnreachable, wantErr: "gpu-scheduler does not answer",
			change: func(_ *testing.T, c *asktest.Cluster) { c.Scheduler.Close() }},
		{name: "API server gone", args: "jobs", want: see.ExitUnreachable, wantErr: "the API server",
			change: func(_ *testing.T, c *asktest.Cluster) { c.API.Close() }},
		{name: "not the leader for ever", args: "jobs --request-timeout 300ms", want: see.ExitUnreachable, wantErr: "does not lead",
			change: func(_ *testing.T, c *asktest.Cluster) {
				c.Replace(query.PathGangs, failure(503, "NotLeader", "this replica does not lead"))
			}},
		{name: "invalid parameter", args: "cost --by moon", want: see.ExitUsage, wantErr: `by: "moon" is not`,
			change: func(_ *testing.T, c *asktest.Cluster) {
				c.Replace(query.PathUsage, asktest.Answer{Status: 400, Body: `{"status":400,"reason":"Invalid","field":"by","message":"\"moon\" is not a column"}`})
			}},
		{name: "answer of something else", args: "queues", want: see.ExitError, wantErr: "not understood",
			change: func(_ *testing.T, c *asktest.Cluster) { c.Replace(query.PathQueues, asktest.Answer{Body: "<html>"}) }},
		{name: "empty name", args: "why pod/", want: see.ExitUsage},
		{name: "no such file", args: "whatif -f /does/not/exist", want: see.ExitUsage},
		{name: "empty manifest", args: "whatif -f -", want: see.ExitUsage, wantErr: "it is empty"},
		{name: "no such view", args: "top moon", want: see.ExitUsage},
		{name: "bad lease", args: "queues --lease x", want: see.ExitUsage, wantErr: "--lease"},
		{name: "plain scheduler URL", args: "queues --scheduler http://x", want: see.ExitUsage, wantErr: "--scheduler"},
		{name: "web beyond loopback", args: "web --address 0.0.0.0", want: see.ExitUsage, wantErr: "--address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := asktest.New(t, "testdata/answers")
			if tt.change != nil {
				tt.change(t, c)
			}
			page := func(h http.Handler) http.Handler { return h }
			r := run{args: strings.Fields(tt.args), config: see.Config{Page: page}}.do(t, c)
			if r.code != tt.want || !strings.Contains(r.errOut, tt.wantErr) {
				t.Errorf("exit code %d, want %d; stderr %q, want %q in it", r.code, tt.want, r.errOut, tt.wantErr)
			}
			if tt.want != see.ExitOK && r.errOut == "" {
				t.Error("nothing is said on standard error")
			}
		})
	}
}

// TestUnchanged: json and yaml are the scheduler's answer, with fields that this program
// does not know, in their order.
func TestUnchanged(t *testing.T) {
	c := asktest.New(t, "testdata/answers")
	const answer = `{"zebra":{"new":[1,2.50,null]},"at":"2026-11-16T09:41:07Z","items":[],"hidden":0,"big":12345678901234567890}`
	c.Replace(query.PathQueues, asktest.Answer{Body: answer})
	var want bytes.Buffer
	if err := json.Indent(&want, []byte(answer), "", "  "); err != nil {
		t.Fatal(err)
	}
	if got := (run{args: []string{"queues", "-o", "json"}}).do(t, c).out; got != want.String()+"\n" {
		t.Errorf("json: %s, want %s", got, want.String())
	}
	var fromYAML, fromJSON any
	if err := yaml.Unmarshal([]byte((run{args: []string{"queues", "-o", "yaml"}}).do(t, c).out), &fromYAML); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(answer), &fromJSON); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
		t.Errorf("yaml: %s", diff)
	}
}

// TestPages: a list of several pages is shown whole.
func TestPages(t *testing.T) {
	c := asktest.New(t, "testdata/answers")
	gang := func(name string) string {
		return fmt.Sprintf(`{"namespace":"ml-team","name":%q,"kind":"Pod","queue":"q","phase":"Running","need":1,"exist":1,"placed":1,"milli":1000,"submitted":"2026-11-16T09:00:00Z","priority":0}`, name)
	}
	c.Replace(query.PathGangs, asktest.Answer{Body: `{"at":"2026-11-16T09:41:07Z","continue":"c1","items":[` + gang("one") + `]}`})
	c.Answer(query.PathGangs+"?continue=c1&namespace=ml-team", asktest.Answer{Body: `{"at":"2026-11-16T09:41:07Z","continue":"c2","items":[` + gang("two") + `]}`})
	c.Answer(query.PathGangs+"?continue=c2&namespace=ml-team", asktest.Answer{Body: `{"at":"2026-11-16T09:41:07Z","items":[` + gang("three") + `]}`})
	var all query.Gangs
	if err := json.Unmarshal([]byte((run{args: []string{"jobs", "-o", "json"}}).do(t, c).out), &all); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range all.Items {
		names = append(names, g.Name)
	}
	if !slices.Equal(names, []string{"one", "two", "three"}) || all.Continue != "" {
		t.Errorf("items %v, continue %q", names, all.Continue)
	}
}

// Named nodes are shown alone, in JSON too; names that there are not are an error. Who may
// not list nodes learns nothing from it.
func TestTopNamed(t *testing.T) {
	node := func(name string) string { return `{"name":"` + name + `","state":"ready","devices":[],"added":1}` }
	tests := []struct {
		name, answer string
		args         []string
		code         int
		want, not    string
	}{
		{"table", `{"items":[` + node("a") + "," + node("b") + `]}`, []string{"top", "nodes", "b"}, see.ExitOK, "b   ", "a   "},
		{"json", `{"version":7,"items":[` + node("a") + "," + node("b") + `]}`, []string{"top", "devices", "b", "-o", "json"}, see.ExitOK, `"added": 1`, `"a"`},
		{"missing", `{"items":[` + node("a") + `]}`, []string{"top", "nodes", "a", "x"}, see.ExitNotFound, "no such node with GPUs: x", "such node with GPUs: a"},
		{"hidden", `{"items":[],"hidden":2}`, []string{"top", "nodes", "x"}, see.ExitOK, "2 nodes not shown", "no such"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := asktest.New(t, "")
			c.Answer(query.PathNodes, asktest.Answer{Body: tt.answer})
			r := run{args: tt.args}.do(t, c)
			if r.code != tt.code {
				t.Errorf("exit code %d, want %d: %s", r.code, tt.code, r.errOut)
			}
			out := r.out + r.errOut
			if !strings.Contains(out, tt.want) || strings.Contains(out, tt.not) {
				t.Errorf("want %q and not %q in\n%s", tt.want, tt.not, out)
			}
		})
	}
}

// hostile is text that would drive a terminal, hide itself or break a table.
const hostile = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202eevil\u200b\r\n\tx\x7f\xff"

// TestHostileText: whatever is in an answer's strings, no control character reaches the
// output of any command in any format, on a terminal or not, and a table has no line more.
func TestHostileText(t *testing.T) {
	commands := []string{"why x", "why x -o wide", "explain x -o wide", "whatif -f -", "jobs -A -o wide", "queues -o wide", "top", "top nodes -o wide", "top devices -o wide", "top queues", "cost -o wide"}
	for _, command := range commands {
		for _, format := range []string{"", "json", "yaml"} {
			if format != "" && strings.Contains(command, "wide") {
				continue
			}
			t.Run(command+" "+format, func(t *testing.T) {
				args := strings.Fields(command)
				if format != "" {
					args = append(args, "-o", format)
				}
				args = append(args, "--once")
				if args[0] != "top" {
					args = args[:len(args)-1]
				}
				c := asktest.New(t, "testdata/answers")
				clean := run{args: args, terminal: true, columns: 10000, in: "kind: Pod\n"}.do(t, c)
				files, _ := filepath.Glob("testdata/answers/*.json")
				for _, f := range files {
					c.Replace(query.Prefix+strings.TrimSuffix(filepath.Base(f), ".json"), asktest.Answer{Body: poison(t, f)})
				}
				r := run{args: args, terminal: true, columns: 10000, in: "kind: Pod\n"}.do(t, c)
				if r.code != 0 && r.code != see.ExitError {
					t.Fatalf("exit code %d: %s", r.code, r.errOut)
				}
				text := r.out + r.errOut
				for _, style := range []string{"0", "1", "2", "31", "32", "33", "36"} {
					text = strings.ReplaceAll(text, "\x1b["+style+"m", "") // its own colours
				}
				for _, bad := range []string{"\x1b", "\x07", "\x7f", "\u009b", "\u202e", "\u200b", "\r", "\t", "\xff"} {
					if i := strings.Index(text, bad); i >= 0 {
						t.Errorf("%q reaches the terminal: %q", bad, text[max(0, i-40):min(len(text), i+40)])
					}
				}
				if !strings.Contains(r.out, `\x1b`) && format == "" {
					t.Errorf("the hostile text is not shown: %q", r.out)
				}
				if format == "" && !strings.Contains(command, "why") && !strings.Contains(command, "whatif") && !strings.Contains(command, "explain") &&
					strings.Count(r.out, "\n") != strings.Count(clean.out, "\n") {
					t.Errorf("%d lines, of a harmless answer %d", strings.Count(r.out, "\n"), strings.Count(clean.out, "\n"))
				}
			})
		}
	}
}

// poison is an answer with hostile text in every string that is not a time or a word of a
// fixed list.
func poison(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	fixed := []string{"at", "submitted", "since", "decided", "expectedStart", "phase", "known", "by", "levels"}
	var walk func(v any) any
	walk = func(v any) any {
		switch x := v.(type) {
		case map[string]any:
			for key, value := range x {
				if !slices.Contains(fixed, key) {
					x[key] = walk(value)
				}
			}
		case []any:
			for i := range x {
				x[i] = walk(x[i])
			}
		case string:
			return x + hostile
		}
		return v
	}
	out, err := json.Marshal(walk(v))
	if err != nil {
		t.Fatal(err)
	}
	// What encoding/json escapes may also come unescaped.
	out = bytes.ReplaceAll(out, []byte(`\u007f`), []byte("\x7f"))
	return strings.ReplaceAll(string(out), `\ufffd`, "\xff")
}

// TestCompletion: names come from the cluster, with what was typed; failures give none.
func TestCompletion(t *testing.T) {
	c := asktest.New(t, "testdata/answers")
	c.Namespaces = []string{"default", "ml-team", "ml-ops"}
	c.Pods = []v1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Name: "train-0"}, Status: v1.PodStatus{Phase: v1.PodRunning}},
		{ObjectMeta: metav1.ObjectMeta{Name: "notebook"}, Status: v1.PodStatus{Phase: v1.PodRunning}},
	}
	tests := []struct {
		args []string
		want []string
	}{
		{[]string{"why", ""}, []string{"train\tJob, Waiting", "too-large\tPod, Waiting", "infer-1\tDeployment, Starting", "notebook\tPod, Running", "train-0\tRunning"}},
		{[]string{"why", "tr"}, []string{"train\tJob, Waiting", "train-0\tRunning"}},
		{[]string{"why", "job/tr"}, []string{"job/train\tJob, Waiting"}},
		{[]string{"why", "jobs", ""}, []string{"train\tJob, Waiting"}},
		{[]string{"why", "pod/"}, []string{"pod/train-0\tRunning", "pod/notebook\tRunning"}},
		{[]string{"why", "gang/t"}, []string{"gang/train\tJob, Waiting", "gang/too-large\tPod, Waiting"}},
		{[]string{"why", "train", "x/"}, nil},
		{[]string{"explain", "n"}, []string{"notebook\tRunning"}},
		{[]string{"why", "-n", "ml"}, []string{"ml-team", "ml-ops"}},
		{[]string{"jobs", "--queue", "t"}, []string{"training"}},
		{[]string{"jobs", "--phase", ""}, []string{"Waiting", "Starting", "Running", "Partial"}},
		{[]string{"top", ""}, []string{"fleet", "nodes", "devices", "queues"}},
		{[]string{"top", "devices", "a"}, []string{"a100-0"}},
		{[]string{"top", "fleet", ""}, nil},
		{[]string{"queues", "--context", ""}, []string{"test"}},
		{[]string{"cost", "--by", ""}, query.UsageBy()},
		{[]string{"queues", "-o", ""}, []string{"json", "yaml", "wide"}},
	}
	complete := func(t *testing.T, kubeconfig string, args []string) []string {
		t.Helper()
		line := append([]string{"__complete", args[0], "--kubeconfig", kubeconfig}, args[1:]...)
		r := run{args: line}.do(t, nil)
		var got []string
		for _, l := range strings.Split(strings.TrimSpace(r.out), "\n") {
			if !strings.HasPrefix(l, ":") {
				got = append(got, l)
			}
		}
		return got
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			if diff := cmp.Diff(tt.want, complete(t, c.Kubeconfig, tt.args)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("without rights", func(t *testing.T) {
		if got := complete(t, c.WithToken(t, "wrong"), []string{"why", ""}); got != nil {
			t.Errorf("got %v", got)
		}
	})
	t.Run("hostile name", func(t *testing.T) {
		c.Pods = []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a\x1b[2J"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: v1.PodStatus{Phase: "x\x1b"}}}
		if diff := cmp.Diff([]string{"b\tx\\x1b"}, complete(t, c.Kubeconfig, []string{"explain", ""})); diff != "" {
			t.Error(diff)
		}
	})
}

// TestDumpFile: the file is there whole, for its owner alone, or not at all.
func TestDumpFile(t *testing.T) {
	c := asktest.New(t, "testdata/answers")
	dir := t.TempDir()
	file := filepath.Join(dir, "cluster.dump")
	if r := (run{args: []string{"dump", "-f", file}}).do(t, c); r.code != 0 || !strings.Contains(r.errOut, "30 bytes") {
		t.Fatalf("%+v", r)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != 30 {
		t.Fatalf("file %v, %v", info, err)
	}
	if r := (run{args: []string{"dump", "-f", file}}).do(t, c); r.code != see.ExitUsage {
		t.Errorf("a file that exists: %+v", r)
	}
	if r := (run{args: []string{"dump", "-f", filepath.Join(dir, "nowhere", "x")}}).do(t, c); r.code != see.ExitUsage || !strings.Contains(r.errOut, "-f: stat ") {
		t.Errorf("no such folder: %+v", r)
	}
	if r := (run{args: []string{"dump", "-f", filepath.Join(file, "x")}}).do(t, c); r.code != see.ExitUsage {
		t.Errorf("a file as a folder: %+v", r)
	}
	c.Replace(query.PathDump, failure(403, "Forbidden", "no"))
	if r := (run{args: []string{"dump", "-f", file, "--force"}}).do(t, c); r.code != see.ExitForbidden {
		t.Errorf("forbidden: %+v", r)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("files left: %v", left)
	}
	if r := (run{args: []string{"dump", "-f", "-"}, terminal: true}).do(t, c); r.code != see.ExitUsage {
		t.Errorf("on a terminal: %+v", r)
	}
}

// TestLive: in a terminal top shows views that keys choose until q, on a screen of its own
// that is left behind clean.
func TestLive(t *testing.T) {
	c := asktest.New(t, "testdata/answers")
	r := run{args: []string{"top"}, terminal: true, in: "q"}.do(t, c)
	if r.code != 0 || !strings.HasPrefix(r.out, "\x1b[?1049h\x1b[?25l") || !strings.HasSuffix(r.out, "\x1b[?25h\x1b[?1049l") {
		t.Errorf("exit code %d, output %q", r.code, r.out)
	}
}
