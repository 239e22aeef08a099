package bench

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestMain lets the test program stand in for tangram: the ceiling starts it
// again as "bench binder".
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "bench" && os.Args[2] == binderUse {
		root := &cobra.Command{Use: "tangram"}
		root.AddCommand(NewCommand())
		if root.ExecuteContext(context.Background()) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestRun measures the ceiling on a real control plane, small: the whole path
// from flags to report, gangs included. kube-scheduler and Tangram differ in their command line
// only.
func TestRun(t *testing.T) {
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.json")
	config := DefaultConfig()
	config.Nodes, config.GPUs, config.Gangs, config.Size, config.GPUsPerPod = 10, 4, 5, 4, 2
	config.Contenders = []string{Ceiling}
	config.Rounds, config.MaxNoise = 1, 1 // tests of other packages are noise enough
	config.Bin, config.Out, config.JSON = bin, filepath.Join(t.TempDir(), "out"), file
	if err := config.findPrograms(); err != nil {
		t.Skipf("the control plane is not built: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var table, status strings.Builder
	if err := Run(t.Context(), config, []string{self, "bench"}, &table, &status); err != nil {
		t.Fatalf("%v\n%s%s", err, &status, &table)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report Report
	if err := json.Unmarshal(data, &report); err != nil {
		t.Fatal(err)
	}
	got := report.Summary[0]
	if got.Bound != 20 || got.NodesUsed != 10 || got.PodsPerSecond <= 0 || *got.OfCeiling != 1 ||
		got.CreateToBound.P50 <= 0 || got.PeakMemory <= 0 {
		t.Errorf("got %+v", got)
	}
	// The ceiling knows no gangs: it puts each pod on the next node.
	if g := got.Gangs; g == nil || g.NodesPerGang <= 2 || g.NodesPerGang > 4 || g.MostNodes > 4 || g.Partial != 0 || g.LastCreateToBound.P50 <= 0 {
		t.Errorf("got gangs %+v", g)
	}
	if s := report.Settings; s.Pods != 20 || s.Gangs != 5 || s.GangSize != 4 || s.WarmupPods != 20 {
		t.Errorf("got settings %+v", s)
	}
	if _, err := os.Stat(config.Out); !os.IsNotExist(err) {
		t.Errorf("state was left behind: %v", err)
	}
}

func TestCommandRefusesBadFlags(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no nodes", []string{"--nodes", "0"}, "--nodes: must be at least 1"},
		{"no number", []string{"--pods", "many"}, "--pods"},
		{"unknown contender", []string{"--contenders", "ceiling,slurm"}, `--contenders: unknown contender "slurm"`},
		{"gangs without a size", []string{"--gangs", "250"}, "--size: must be at least 1"},
		{"empty gangs", []string{"--gangs", "250", "--size", "0"}, "--size: must be at least 1"},
		{"gangs and pods", []string{"--gangs", "2", "--size", "8", "--pods", "16"}, "--pods: with --gangs"},
		{"gangs that do not fit", []string{"--gangs", "3", "--size", "8", "--nodes", "2"}, "--gangs: 3 gangs of 8 pods of 1 GPUs do not fit"},
		{"missing programs", []string{"--bin", "testdata/none"}, "--bin: no program etcd"},
		{"stray word", []string{"now"}, "unknown command"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := &cobra.Command{Use: "tangram"}
			root.AddCommand(NewCommand())
			root.SetArgs(append([]string{"bench"}, tc.args...))
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			err := root.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
