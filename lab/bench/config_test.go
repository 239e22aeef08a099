package bench

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDefaultConfigIsValid(t *testing.T) {
	config := DefaultConfig()
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestValidateNamesTheFlag(t *testing.T) {
	for _, tc := range []struct {
		name     string
		change   func(*Config)
		wantFlag string
		wantText string
	}{
		{"no nodes", func(c *Config) { c.Nodes = 0 }, "nodes", "at least 1, got 0"},
		{"negative nodes", func(c *Config) { c.Nodes = -3 }, "nodes", "got -3"},
		{"no GPUs", func(c *Config) { c.GPUs = 0 }, "gpus", "at least 1"},
		{"too many GPUs", func(c *Config) { c.GPUs = 17 }, "gpus", "at most 16"},
		{"no pods", func(c *Config) { c.Pods = 0 }, "pods", "at least 1"},
		{"no rounds", func(c *Config) { c.Rounds = 0 }, "rounds", "at least 1"},
		{"pods without GPUs", func(c *Config) { c.GPUsPerPod = 0 }, "gpus-per-pod", "at least 1"},
		{"pod larger than a node", func(c *Config) { c.GPUsPerPod = 9 }, "gpus-per-pod", "node of 8"},
		{"more pods than GPUs", func(c *Config) { c.Pods = 8001 }, "pods", "hold 8000"},
		{"pods that would have to straddle nodes", func(c *Config) { c.GPUsPerPod, c.Pods = 3, 2001 }, "pods", "hold 2000"},
		{"gangs without a size", func(c *Config) { c.Gangs = 250 }, "size", "at least 1 with --gangs, got 0"},
		{"gangs of a negative size", func(c *Config) { c.Gangs, c.Size = 250, -8 }, "size", "got -8"},
		{"a size without gangs", func(c *Config) { c.Size = 8 }, "gangs", "at least 1 with --size, got 0"},
		{"negative gangs", func(c *Config) { c.Gangs, c.Size = -1, 8 }, "gangs", "got -1"},
		{"gangs with more pods than GPUs", func(c *Config) { c.Gangs, c.Size = 1001, 8 }, "gangs", "1001 gangs of 8 pods of 1 GPUs do not fit: 1000 nodes of 8 GPUs hold 8000 pods"},
		{"a gang larger than the cluster", func(c *Config) { c.Gangs, c.Size = 1, 8001 }, "gangs", "hold 8000"},
		{"gangs beyond the range of an int", func(c *Config) { c.Gangs, c.Size = math.MaxInt, math.MaxInt }, "gangs", "do not fit"},
		{"negative rate", func(c *Config) { c.Rate = -1 }, "rate", "got -1"},
		{"no number", func(c *Config) { c.Rate = math.NaN() }, "rate", "NaN"},
		{"noise in per cent", func(c *Config) { c.MaxNoise = 10 }, "max-noise", "from 0 to 1, got 10"},
		{"no contender", func(c *Config) { c.Contenders = nil }, "contenders", "ceiling, kube-scheduler, tangram"},
		{"unknown contender", func(c *Config) { c.Contenders = []string{"volcano"} }, "contenders", `"volcano"`},
		{"contender twice", func(c *Config) { c.Contenders = []string{Tangram, Tangram} }, "contenders", "twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := DefaultConfig()
			tc.change(&config)
			wantFlagError(t, config.Validate(), tc.wantFlag, tc.wantText)
		})
	}
}

func TestGangsReplacePods(t *testing.T) {
	for _, tc := range []struct {
		name                   string
		pods, gangs, size      int
		wantPods, wantWarmPods int
	}{
		{"alone", 2000, 0, 0, 2000, 100},
		{"few alone", 20, 0, 0, 20, 20},
		{"gangs that fill the cluster", 9000, 1000, 8, 8000, 96},
		{"few gangs", 2000, 3, 8, 24, 24},
		{"gangs larger than the warm-up", 2000, 4, 128, 512, 128},
		{"gangs of one", 2000, 200, 1, 200, 100},
	} {
		config := DefaultConfig()
		config.Pods, config.Gangs, config.Size = tc.pods, tc.gangs, tc.size
		if err := config.Validate(); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if config.podCount() != tc.wantPods || config.warmupCount() != tc.wantWarmPods {
			t.Errorf("%s: %d pods after %d, want %d after %d", tc.name, config.podCount(), config.warmupCount(), tc.wantPods, tc.wantWarmPods)
		}
	}
}

func TestMissingProgramIsNamed(t *testing.T) {
	config := DefaultConfig()
	config.Bin = t.TempDir()
	for _, p := range []string{"etcd", "kube-apiserver", "kube-scheduler", "gpu-scheduler"} {
		wantFlagError(t, config.findPrograms(), "bin", "no program "+p+" in")
		if err := os.WriteFile(filepath.Join(config.Bin, p), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := config.findPrograms(); err != nil {
		t.Errorf("with all programs: %v", err)
	}
}

func TestOnlyProgramsOfTheRunAreNeeded(t *testing.T) {
	config := DefaultConfig()
	config.Contenders = []string{Ceiling}
	config.Bin = t.TempDir()
	for _, p := range []string{"etcd", "kube-apiserver"} {
		if err := os.WriteFile(filepath.Join(config.Bin, p), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := config.findPrograms(); err != nil {
		t.Error(err)
	}
}

func TestOutMustBeEmpty(t *testing.T) {
	config := DefaultConfig()
	config.Out = filepath.Join(t.TempDir(), "new")
	dir, err := config.makeOut()
	if err != nil {
		t.Fatalf("new folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "old"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = config.makeOut()
	wantFlagError(t, err, "out", "not empty")
}

func wantFlagError(t *testing.T, err error, flag, text string) {
	t.Helper()
	var got *FlagError
	if !errors.As(err, &got) {
		t.Fatalf("got %v, want an error of --%s", err, flag)
	}
	if got.Flag != flag || !strings.Contains(got.Problem, text) || !strings.HasPrefix(err.Error(), "--"+flag+": ") {
		t.Errorf("got %q, want --%s with %q", err, flag, text)
	}
}
