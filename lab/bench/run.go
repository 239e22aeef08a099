package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// ErrInvalid is returned when the benchmark ran and at least one result failed
// its check.
var ErrInvalid = errors.New("at least one result is not valid")

// clientGCPercent lets the load client's heap grow fivefold between collections.
// It holds a few megabytes, and every collection takes CPU from what it measures.
const clientGCPercent = 400

// Run runs the benchmark and prints the table to out and what it is doing to
// status. self is the command line that reaches this command again. The error
// is a *FlagError for a Config that cannot run, and ErrInvalid when a contender
// did not do the work.
func Run(ctx context.Context, config Config, self []string, out, status io.Writer) (err error) {
	config.withAsked()
	if err := config.Validate(); err != nil {
		return err
	}
	if err := config.findPrograms(); err != nil {
		return err
	}
	programs, err := programVersions(ctx, &config)
	if err != nil {
		return err
	}
	root, err := config.makeOut()
	if err != nil {
		return err
	}
	defer func() {
		if err == nil && !config.Keep {
			err = os.RemoveAll(root)
			return
		}
		fmt.Fprintf(status, "logs and state are in %s\n", root)
	}()
	defer debug.SetGCPercent(debug.SetGCPercent(clientGCPercent))

	report := &Report{
		Started: time.Now().UTC().Truncate(time.Second),
		Machine: Machine{CPUs: runtime.NumCPU(), CPUModel: cpuModel(), OS: runtime.GOOS, Arch: runtime.GOARCH},
		Settings: Settings{
			Nodes: config.Nodes, GPUsPerNode: config.GPUs,
			Pods: config.podCount(), GPUsPerPod: config.GPUsPerPod, Gangs: config.Gangs, GangSize: config.Size,
			Rate: config.Rate, Contenders: config.Contenders, Rounds: config.Rounds,
			Creators: creators, Binders: binders, WarmupPods: config.warmupCount(), MaxNoise: config.MaxNoise, Pending: config.Pending, Ask: config.Ask.String(),
		},
		Programs: programs,
	}
	progress := newProgress(status)
	for round := 1; round <= config.Rounds; round++ {
		results, err := (&roundRun{
			config: &config, number: round, progress: progress,
			try: func(ctx context.Context, c contender, attempt int) (Result, error) {
				t := trial{
					config: &config, contender: c, round: round, self: self, progress: progress,
					dir: filepath.Join(root, fmt.Sprintf("%d-%s-%d", round, c.name, attempt)),
				}
				return t.run(ctx)
			},
		}).run(ctx)
		if err != nil {
			return err
		}
		report.Trials = append(report.Trials, results...)
	}
	report.Summary = summarise(config.Contenders, report.Trials)
	if config.JSON != "" {
		if err := report.writeJSON(config.JSON); err != nil {
			return err
		}
	}
	if err := report.writeTable(out); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	for i := range report.Summary {
		if !report.Summary[i].Valid() {
			return ErrInvalid
		}
	}
	return nil
}

// makeOut makes the folder for state and logs.
func (c *Config) makeOut() (string, error) {
	if c.Out == "" {
		dir, err := os.MkdirTemp("", "tangram-bench-")
		if err != nil {
			return "", fmt.Errorf("make a folder for the run: %w", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(c.Out)
	if err != nil {
		return "", flagErrorf("out", "%v", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", flagErrorf("out", "%v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", flagErrorf("out", "%v", err)
	}
	if len(entries) > 0 {
		return "", flagErrorf("out", "%s is not empty", dir)
	}
	return dir, nil
}

// programVersions asks every program for its version: a report needs them to be
// comparable, and a program that cannot print it will not run either.
func programVersions(ctx context.Context, config *Config) (map[string]string, error) {
	versions := map[string]string{}
	for _, p := range config.programs() {
		out, err := exec.CommandContext(ctx, filepath.Join(config.Bin, p), "--version").Output()
		if err != nil {
			return nil, flagErrorf("bin", "%s --version: %v", p, err)
		}
		line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		versions[p] = line
	}
	return versions, nil
}

// cpuModel is the processor's name; empty where the machine does not report it.
func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
