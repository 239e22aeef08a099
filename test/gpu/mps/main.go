// Command mps shows on a real GPU what package internal/agent/sharing/mps promises, and
// writes it as a section of docs/gpu-report.md. It starts the daemon through that package
// and runs the load generator as its clients. test/gpu/run.sh runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/sharing/mps"
	"github.com/tangram-dev/tangram/test/gpu/report"
)

func main() {
	load := flag.String("load", "bin/gpu/load", "the load generator")
	sections := flag.String("sections", "", "the folder for the report's section")
	seconds := flag.Int("seconds", 5, "how long each measurement takes")
	state := flag.String("state", "/run/tangram-mps-test", "folder for the daemon's pipe and log; every user must be able to reach it")
	control := flag.String("control", "nvidia-cuda-mps-control", "the MPS control program")
	flag.Parse()
	if *sections == "" {
		fmt.Fprintln(os.Stderr, "mps: -sections is missing")
		os.Exit(2)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	began := time.Now()
	t := &trial{load: *load, seconds: *seconds, state: *state, control: *control, s: &report.Section{}}
	t.s.Printf("## MPS\n")
	if err := t.run(ctx); err != nil {
		t.s.Check(false, "the step ended: %v", err)
	}
	fmt.Fprintf(os.Stderr, "mps: %d checks, %d failed, %s\n", t.s.Checks, t.s.Failed, time.Since(began).Round(time.Millisecond))
	if err := t.s.Save(*sections, "60-mps"); err != nil {
		fmt.Fprintln(os.Stderr, "mps:", err)
		os.Exit(1)
	}
	if t.s.Failed > 0 {
		os.Exit(1)
	}
}

// trial is one run of all parts.
type trial struct {
	load, state, control string
	seconds              int
	gpu                  mps.GPU
	manager              *mps.Manager
	died                 chan mps.Death
	ready                chan string
	s                    *report.Section
	alone                float64 // TFLOP/s of a client without MPS and without others
}

// discover finds the first GPU.
func (t *trial) discover(ctx context.Context) error {
	said, err := smi(ctx, "--query-gpu=uuid,memory.total,name,driver_version,compute_mode")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(said, "\n")
	fields := strings.Split(first, ", ")
	if len(fields) != 5 {
		return fmt.Errorf("nvidia-smi said %q", said)
	}
	memory, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return err
	}
	t.gpu = mps.GPU{UUID: fields[0], MemoryMiB: memory}
	return nil
}

// computeMode reads the GPU's.
func (t *trial) computeMode(ctx context.Context) string {
	said, err := smi(ctx, "-i", t.gpu.UUID, "--query-gpu=compute_mode")
	if err != nil {
		return err.Error()
	}
	return said
}

func smi(ctx context.Context, arguments ...string) (string, error) {
	said, err := exec.CommandContext(ctx, "nvidia-smi", append(arguments, "--format=csv,noheader,nounits")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("nvidia-smi %v: %w: %s", arguments, err, said)
	}
	return strings.TrimSpace(string(said)), nil
}
