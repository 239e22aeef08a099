package chaos

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/internal/local"
)

// knownBroken are the faults and the kinds of load that break an invariant today, with
// what is to be repaired. The short run leaves them out, make chaos does not. The
// list is to be emptied.
func knownBroken() (faults, load map[string]string) {
	return map[string]string{
			"leader-stop": "issue 9, 14: a leader that was stopped and resumed double-books devices and exceeds limits",
		}, map[string]string{
			loadJobLimited: "issue 9, 4: a deleted Job's pods are not charged to its queue once its PodGroup is gone",
			loadShareGang:  "issue 9, 15: a gang of shares that NodeResourcesFit refuses never starts",
			loadMIGLimited: "issue 9, 17: MIG slices are not charged where a model lacks the profile",
		}
}

// TestShortRun is 80 seconds of load and faults with a fixed seed. A lease of three
// seconds instead of fifteen lets more faults happen in that time.
func TestShortRun(t *testing.T) {
	faults, load := knownBroken()
	for _, kind := range []map[string]string{faults, load} {
		for _, name := range slices.Sorted(maps.Keys(kind)) {
			t.Logf("left out: %s: %s", name, kind[name])
		}
	}
	out := &bytes.Buffer{}
	cfg := Config{
		Bin: binDir(t), Dir: t.TempDir(), Seed: 5, Duration: 80 * time.Second, Lease: 3 * time.Second, Pause: time.Second, Out: out,
		Faults: every(FaultKinds()).Without(slices.Collect(maps.Keys(faults))...),
		Load:   every(LoadKinds()).Without(slices.Collect(maps.Keys(load))...),
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
