// Command run does a chaos run: make chaos SEED=7 FAULTS=all DURATION=5m.
//
// It exits with 1 when an invariant was broken and with 2 when the run itself failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tangram-dev/tangram/test/chaos"
)

func main() { os.Exit(run()) }

func run() int {
	cfg := chaos.Config{Out: os.Stdout}
	var faults, load string
	flag.Uint64Var(&cfg.Seed, "seed", 1, "fixes the load and the order of faults")
	flag.DurationVar(&cfg.Duration, "duration", 5*time.Minute, "how long load and faults last")
	flag.StringVar(&faults, "faults", "all", "name:weight, comma-separated; all, none, -name: "+strings.Join(chaos.FaultKinds(), ", "))
	flag.StringVar(&load, "load", "all", "the same for the load: "+strings.Join(chaos.LoadKinds(), ", "))
	flag.DurationVar(&cfg.Lease, "lease", 15*time.Second, "the schedulers' lease; processes are stopped for 1.3 to 2.7 times as long")
	flag.DurationVar(&cfg.Pause, "pause", 4*time.Second, "least time between two faults; up to twice as long is added")
	flag.StringVar(&cfg.Bin, "bin", "bin", "the folder of the programs")
	flag.StringVar(&cfg.Dir, "dir", "", "the folder for state, logs, history.log and result.json; default .tangram-chaos/<seed>")
	flag.Parse()
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(".tangram-chaos", fmt.Sprint(cfg.Seed))
	}
	var err error
	if cfg.Faults, err = chaos.ParseWeights(faults, chaos.FaultKinds()); err != nil {
		return complain(err)
	}
	if cfg.Load, err = chaos.ParseWeights(load, chaos.LoadKinds()); err != nil {
		return complain(err)
	}
	// Every run begins with an empty cluster.
	if err := os.RemoveAll(filepath.Join(cfg.Dir, "cluster")); err != nil {
		return complain(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := chaos.Run(ctx, cfg)
	if err != nil {
		return complain(err)
	}
	result.Print(os.Stdout)
	fmt.Printf("\nresult.json, history.log and the logs are in %s\n", cfg.Dir)
	if !result.OK() {
		return 1
	}
	return 0
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "chaos:", err)
	return 2
}
