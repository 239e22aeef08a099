// Command probe runs the agent's NVML back end on a machine with a real NVIDIA GPU and
// writes what it found as sections of docs/gpu-report.md. test/gpu/run.sh runs it.
//
// Every claim is a check: against nvidia-smi, or against what a CUDA program (load) could
// really use. The exit status is 1 when a check failed; the sections say which.
//
// It uses the first GPU and expects it idle and with MIG off. It changes MIG mode and
// makes and destroys instances, and it provokes errors of programs: run it on a machine
// that has no other use.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/nvml"
	"github.com/tangram-dev/tangram/test/gpu/report"
)

// probe is one run.
type probe struct {
	ctx     context.Context
	backend device.Backend
	calls   *calls
	load    string // path of the CUDA program
	reset   bool   // also reset the device
	gpu     device.Device
	events  chan device.Event // what the driver reports, from beginning to end
	ended   chan error        // how Watch ended
	failed  int
}

func main() {
	load := flag.String("load", "bin/gpu/load", "the CUDA program")
	sections := flag.String("sections", "", "the folder for the report's sections")
	reset := flag.Bool("reset", false, "also reset the idle device: do not where the GPU is passed through to a virtual machine")
	limit := flag.Duration("limit", 5*time.Minute, "how long the whole run may take")
	flag.Parse()
	if *sections == "" {
		fmt.Fprintln(os.Stderr, "probe: -sections is missing")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	failed, err := run(ctx, *load, *sections, *reset)
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "probe: %d checks failed; the sections say which\n", failed)
		os.Exit(1)
	}
}

func run(ctx context.Context, load, sections string, reset bool) (failed int, err error) {
	p := &probe{ctx: ctx, load: load, reset: reset, calls: &calls{}}
	p.backend = nvml.New(nvml.Options{Observe: p.calls.observe, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	defer p.backend.Close()
	inv, err := p.backend.Inventory(ctx)
	if err != nil {
		return 0, err
	}
	if len(inv.Devices) == 0 {
		return 0, fmt.Errorf("the driver lists no device")
	}
	p.gpu = inv.Devices[0]

	// As in the agent, events are watched all the time.
	p.events, p.ended = make(chan device.Event, 1000), make(chan error, 1)
	watch, stop := context.WithCancel(ctx)
	defer stop()
	go func() { p.ended <- p.backend.Watch(watch, func(e device.Event) { p.events <- e }) }()

	for _, step := range []struct {
		file, title string
		write       func(*report.Section) error
	}{
		{"10-discovery", "Discovery", p.discovery},
		{"20-telemetry", "Telemetry", p.telemetry},
		{"30-cost", "What sampling costs", p.cost},
		{"40-container", "What a container gets", p.container},
		{"50-mig", "MIG", p.mig},
		{"80-health", "Health", func(s *report.Section) error { return p.health(s, stop) }},
	} {
		began := time.Now()
		s := &report.Section{}
		s.Printf("## %s\n", step.title)
		if err := step.write(s); err != nil {
			s.Check(false, "the step ended: %v", err)
		}
		p.failed += s.Failed
		fmt.Fprintf(os.Stderr, "probe: %s: %d checks, %d failed, %s\n", step.title, s.Checks, s.Failed, time.Since(began).Round(time.Millisecond))
		if err := s.Save(sections, step.file); err != nil {
			return p.failed, err
		}
	}
	return p.failed, nil
}
