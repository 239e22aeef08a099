// Command agent runs the real gpu-agent on a machine with an NVIDIA GPU and without an
// API server and a kubelet, and writes a section of docs/gpu-report.md: every exported
// value against nvidia-smi, and what the agent itself costs. test/gpu/run.sh runs it.
//
// It uses the first GPU, which must be idle with MIG off, and cuts it with nvidia-smi.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/test/gpu/report"
)

// trial is one run.
type trial struct {
	agent, load string
	dir         string // for files of the agents
	seconds     int
	s           *report.Section
}

func main() {
	agent := flag.String("agent", "bin/gpu/gpu-agent", "the agent")
	load := flag.String("load", "bin/gpu/load", "the CUDA program")
	sections := flag.String("sections", "", "the folder for the report's section")
	seconds := flag.Int("seconds", 60, "how long the agent's cost is measured; half of it with MIG")
	flag.Parse()
	if *sections == "" {
		fmt.Fprintln(os.Stderr, "agent: -sections is missing")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	began := time.Now()
	s := &report.Section{}
	s.Printf("## The agent itself\n")
	if err := run(ctx, &trial{agent: *agent, load: *load, seconds: *seconds, s: s}); err != nil {
		s.Check(false, "the step ended: %v", err)
	}
	fmt.Fprintf(os.Stderr, "agent: %d checks, %d failed, %s\n", s.Checks, s.Failed, time.Since(began).Round(time.Millisecond))
	if err := s.Save(*sections, "70-agent"); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
	if s.Failed > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context, t *trial) (err error) {
	if t.dir, err = os.MkdirTemp("", "tangram-agent"); err != nil {
		return err
	}
	defer os.RemoveAll(t.dir)
	t.s.Printf("`gpu-agent --backend=nvml --node x` with default settings: a sample every 10 s, no `--serve`.")
	t.s.Printf("There is no kubelet, and the kubeconfig points to a closed port. /metrics is read every 15 s.\n")
	// Written just now, the program can be in the page cache in pages of 2 MiB, and counts
	// as resident by such pages.
	fresh, err := t.start(ctx, "fresh", "--backend=nvml")
	if err != nil {
		return err
	}
	freshMemory, err := fresh.memory()
	fresh.stop()
	if err != nil {
		return err
	}
	if err := evict(t.agent); err != nil {
		return err
	}
	p, err := t.start(ctx, "x", "--backend=nvml")
	if err != nil {
		return err
	}
	defer p.stop()
	for _, step := range []func(context.Context, *process) error{t.values, t.fault} {
		if err := step(ctx, p); err != nil {
			return err
		}
	}
	t.s.Printf("\n### What it costs, one GPU, idle")
	c, err := t.cost(ctx, p, time.Duration(t.seconds)*time.Second)
	if err != nil {
		return err
	}
	t.s.Printf("\nStarted while its program (%s) was freshly written, %s: file pages that the kernel can drop at any time.", size(t.agent), freshMemory)
	if err := t.eight(ctx, c); err != nil {
		return err
	}
	log, err := os.ReadFile(p.log)
	if err != nil {
		return err
	}
	t.s.Check(p.running() && strings.Contains(string(log), "connection refused"),
		"without an API server it ran on for %s, and said so: %d lines of log in all", time.Since(p.began).Round(time.Second), strings.Count(string(log), "\n"))
	p.stop()
	return t.mig(ctx)
}

func size(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s, %.1f MiB", filepath.Base(path), float64(info.Size())/(1<<20))
}
