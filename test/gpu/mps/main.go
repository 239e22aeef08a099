// Command mps shows on a real GPU what package internal/agent/sharing/mps promises. It
// starts the daemon through that package, runs the load generator as its clients and
// prints what each of them got. See ../mps.sh.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/sharing/mps"
)

func main() {
	load := flag.String("load", "bin/gpu-load", "the load generator")
	seconds := flag.Int("seconds", 5, "how long each measurement takes")
	state := flag.String("state", "/run/tangram-mps-test", "folder for the daemon's pipe and log; every user must be able to reach it")
	out := flag.String("out", "", "file for the results as JSON")
	control := flag.String("control", "nvidia-cuda-mps-control", "the MPS control program")
	flag.Parse()

	ctx, cancel := context.WithTimeout(context.Background(), 9*time.Minute)
	defer cancel()
	t := &trial{load: *load, seconds: *seconds, state: *state, control: *control, results: map[string]any{}}
	err := t.run(ctx)
	if err != nil {
		t.note("error", err.Error())
	}
	t.note("failed", t.failed)
	if *out != "" {
		data, encodeErr := json.MarshalIndent(t.results, "", "  ")
		if encodeErr == nil {
			encodeErr = os.WriteFile(*out, append(data, '\n'), 0o644)
		}
		if encodeErr != nil {
			fmt.Fprintln(os.Stderr, encodeErr)
		}
	}
	if err != nil || len(t.failed) > 0 {
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
	results              map[string]any
	failed               []string // what was not as promised
}

// note keeps a result and prints it.
func (t *trial) note(key string, value any) {
	t.results[key] = value
	data, err := json.Marshal(value)
	if err != nil {
		data = []byte(fmt.Sprint(value))
	}
	fmt.Printf("%-28s %s\n", key, data)
}

// expect notes what was not as promised.
func (t *trial) expect(ok bool, promise string) {
	if !ok {
		t.failed = append(t.failed, promise)
		fmt.Printf("%-28s %s\n", "NOT AS PROMISED", promise)
	}
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
	t.note("gpu", fields)
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
