package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMigrate(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.conf", "actions: \"allocate, preempt, reclaim\"\ntiers: [{plugins: [{name: gang}, {name: tdm}]}]\n")
	bad := write("bad.conf", "actions: \"allocate, fly\"\n")
	pod := write("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {kai.scheduler/queue: q}, annotations: {gpu-fraction: \"0.5\"}}\nspec: {schedulerName: kai-scheduler, containers: [{name: c}]}\n")
	refused := write("refused.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: \"p\\x1b[31m\", annotations: {gpu-fraction: \"0.5\", gpu-fraction.limit: \"1\", kai.scheduler/x: y}}\nspec: {containers: [{name: c}]}\n")
	for _, c := range []struct {
		name            string
		args            []string
		stdin           string
		code            int
		out, err, never string
	}{
		{"table", []string{"migrate", "-f", good}, "", 0, "no counterpart", "", "note"},
		{"wide", []string{"migrate", "-f", good, "-o", "wide"}, "", 0, "good.conf:1", "", ""},
		{"json", []string{"migrate", "-f", good, "-o", "json"}, "", 0, `"verdict": "no counterpart"`, "", ""},
		{"standard input", []string{"migrate", "-f", "-", "-o", "config"}, "actions: allocate\n", 0, "preemption: false", "", ""},
		{"config", []string{"migrate", "-f", good, "-o", "config"}, "", 0, "kind: KubeSchedulerConfiguration", "", ""},
		{"values", []string{"migrate", "-f", good, "-o", "values"}, "", 0, "pluginArgs", "", ""},
		{"no queues", []string{"migrate", "-f", good, "-o", "queues"}, "", 1, "", "no queues", ""},
		{"problem", []string{"migrate", "-f", bad}, "", 2, "allocate", `bad.conf:1: actions: "fly" is not an action`, ""},
		{"problem, no configuration", []string{"migrate", "-f", bad, "-o", "config"}, "", 2, "", "bad.conf:1", "KubeScheduler"},
		{"a pod", []string{"migrate", "-f", pod}, "", 2, "", "no configuration", ""},
		{"no such file", []string{"migrate", "-f", filepath.Join(dir, "none")}, "", 2, "", "none", ""},
		{"no such system", []string{"migrate", "-f", good, "--from", "slurm"}, "", 2, "", `--from: "slurm"`, ""},
		{"no such format", []string{"migrate", "-f", good, "-o", "toml"}, "", 2, "", "toml", ""},
		{"check", []string{"migrate", "check", "-f", pod}, "", 0, "3 words are known", "", ""},
		{"check finds", []string{"migrate", "check", "-f", refused}, "", 20, "refused", "", "\x1b"},
		{"check json", []string{"migrate", "check", "-f", refused, "-o", "json"}, "", 20, `"what": "refused"`, "", "\x1b"},
		{"check of a folder", []string{"migrate", "check", "-f", dir}, "", 2, "refused", "not an object", ""},
		{"diagnose nothing", []string{"diagnose"}, "", 2, "", "--all", ""},
		{"diagnose both", []string{"diagnose", "n", "--all"}, "", 2, "", "--all", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errOut := run(c.stdin, append([]string{"tangram"}, c.args...)...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errOut, c.err) || c.never != "" && strings.Contains(out+errOut, c.never) {
				t.Errorf("exit %d, want %d\n%s\n%s", code, c.code, out, errOut)
			}
		})
	}
}
