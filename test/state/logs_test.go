package state

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// output runs a program that ends by itself, and returns what it says.
func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Errorf("%s did not fail: %v", program, err)
	}
	return string(out)
}

// checkJSON fails the test unless every line of a log is a JSON object with a message.
func checkJSON(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		n++
		var line map[string]any
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line["msg"] == nil || line["ts"] == nil {
			t.Errorf("%s:%d: %v: %s", filepath.Base(path), n, err, lines.Text())
		}
	}
	if n < 3 {
		t.Errorf("%s has %d lines", path, n)
	}
	t.Logf("%s: %d lines", filepath.Base(path), n)
}

// TestJSONLogs: with --logging-format=json every line that a program writes while it
// starts, works, loses its API server and ends is JSON, libraries' lines included; so is
// the error it ends with.
func TestJSONLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `[{name: n, count: 1, gpu: {model: A100-80GB, count: 2}}]`, "gpu-controller", "gpu-agent", "gpu-extender")
	w.Apply(string(config.ExtenderRBAC()))
	flags := []string{"--logging-format=json", "-v=2"}
	file := filepath.Join(w.Dir(), "fleet.yaml")
	w.Must(os.WriteFile(file, []byte("pools: [{name: n, count: 1, gpu: {model: A100-80GB, count: 2}}]"), 0o600))
	processes := []*local.Serving{
		w.Scheduler(config.Scheduler(), append(flags, cluster.Alone)...),
		w.Start(local.Component{Name: "gpu-controller", Flags: append(flags, cluster.Alone)}),
		w.Start(local.Component{Name: "gpu-agent", Flags: append(flags, "--backend=simulated", "--fleet="+file)}),
		w.Start(local.Component{Name: "gpu-extender", Flags: flags}),
	}
	w.Create(pod("a", "", 2))
	w.Bound("a")
	w.Create(pod("b", "", 5)) // refused
	api := w.Process("kube-apiserver")
	if err := api.Signal(9); err != nil { // it is started anew
		t.Fatal(err)
	}
	w.Eventually("the API server is back", func() (bool, string) {
		_, err := w.Client.Discovery().ServerVersion()
		return err == nil && api.Restarts() > 0, ""
	})
	for _, p := range processes {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		checkJSON(t, p.Log())
	}
	for _, program := range []string{"gpu-controller", "gpu-agent", "gpu-extender"} {
		out := output(t, filepath.Join(w.Bin, program), "--logging-format=json", "--kubeconfig=/no/such/file", "--listen=nonsense")
		var line map[string]any
		if err := json.Unmarshal([]byte(out), &line); err != nil || line["err"] == nil {
			t.Errorf("%s ends with %s", program, out)
		}
		if out := output(t, filepath.Join(w.Bin, program), "--logging-format=yaml"); len(out) == 0 {
			t.Errorf("%s takes any format", program)
		}
	}
}
