package chaos

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/lab/local"
)

// TestShortRun is 80 seconds of load and faults with a fixed seed. A lease of three
// seconds instead of fifteen lets more faults happen in that time.
func TestShortRun(t *testing.T) {
	out := &bytes.Buffer{}
	cfg := Config{
		Bin: binDir(t), Dir: t.TempDir(), Seed: 5, Duration: 80 * time.Second, Lease: 3 * time.Second, Pause: time.Second, Out: out,
		Faults: every(FaultKinds()),
		Load:   every(LoadKinds()),
	}
	result, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	result.Print(out)
	t.Log("\n" + out.String())
	if !result.OK() {
		t.Error("an invariant was broken")
	}
	// A run that did nothing proves nothing.
	if result.Bindings < 100 || len(result.Faults) < 8 || result.Units < 30 {
		t.Errorf("%d bindings, %d faults, %d units: too few", result.Bindings, len(result.Faults), result.Units)
	}
}

func every(names []string) Weights {
	w := Weights{}
	for _, name := range names {
		w[name] = 1
	}
	return w
}

// binDir is where the programs are; the test is skipped when they are not.
func binDir(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short, and this test starts a control plane")
	}
	dir := os.Getenv("TANGRAM_BIN")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin")
	}
	if err := local.RequirePrograms(dir, "etcd", "kube-apiserver", "kube-controller-manager", "kwok", "gpu-scheduler", "gpu-controller"); err != nil {
		if os.Getenv("TANGRAM_BIN") != "" {
			t.Fatal(err) // make has built them: a skip would hide a broken build
		}
		t.Skipf("skipped: %v", err)
	}
	return dir
}
