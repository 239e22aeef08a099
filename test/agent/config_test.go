package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/test/cluster"
)

// TestBadConfiguration: the program refuses to start and names the field.
func TestBadConfiguration(t *testing.T) {
	bin := cluster.Programs(t, "gpu-agent")
	mps := func(resource string) string {
		return "version: v1\nsharing: {mps: {resources: [" + resource + "]}}\n"
	}
	for name, c := range map[string]struct {
		file string
		args []string
		want string
	}{
		"unknown field":     {"version: v1\nflags: {migStrategie: none}\n", nil, "flags.migStrategie: unknown field"},
		"replicas 1":        {"version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}\n", nil, "sharing.timeSlicing.resources[0].replicas: 1, want at least 2"},
		"mps with mixed":    {mps("{name: nvidia.com/gpu, replicas: 2}"), []string{"--mig-strategy=mixed"}, "sharing.mps: does not work with migStrategy mixed"},
		"percents over 100": {mps("{name: nvidia.com/gpu, replicas: 2, percents: [70, 40]}"), nil, "sharing.mps.resources[0].percents: 110 % in total"},
		"a percent of 101":  {mps("{name: nvidia.com/gpu, replicas: 2, percents: [101, 1]}"), nil, "sharing.mps.resources[0].percents[0]: 101"},
		"a wrong version":   {"version: v7\n", nil, `version: "v7": want v1`},
		"no such file":      {"", []string{"--config-file=/does/not/exist"}, "configuration file: open /does/not/exist"},
		"a wrong flag":      {"version: v1\n", []string{"--shares-per-gpu=1"}, "--shares-per-gpu: 1: want 0 for none"},
		"no program of MPS": {mps("{name: nvidia.com/gpu, replicas: 2}"), []string{"--serve", "--mps-control=/does/not/exist"}, "mps.control:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(file, text string) string {
				path := filepath.Join(dir, file)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			// An API server that is never reached: the settings come first.
			kubeconfig := write("kubeconfig", `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
				clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: a, user: {}}]}`)
			args := []string{"--backend=simulated", "--node=a-0", "--listen=", "--kubeconfig=" + kubeconfig,
				"--fleet=" + write("fleet.yaml", "pools: [{name: a, count: 1, gpu: {model: A100-80GB, count: 8}}]"),
				"--state-dir=" + dir, "--cdi-dir=" + dir, "--kubelet-dir=" + dir}
			if c.file != "" {
				args = append(args, "--config-file="+write("config.yaml", c.file))
			}
			code, out := runToEnd(t, bin, append(args, c.args...)...)
			out = strings.ReplaceAll(out, `\"`, `"`) // the last line of the log quotes the error
			if code != 1 || !strings.Contains(out, c.want) {
				t.Errorf("exit code %d, want 1; output has no %q:\n%s", code, c.want, out)
			}
		})
	}
}
