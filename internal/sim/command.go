package sim

import (
	"bytes"
	"errors"
	"os"

	"github.com/spf13/cobra"
)

// NewCommand is "tangram simulate".
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Replay traces on the code that schedules",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPackCommand(), newQueueCommand(), newGenerateCommand())
	return cmd
}

func newPackCommand() *cobra.Command {
	config := DefaultConfig()
	cmd := &cobra.Command{
		Use:   "pack",
		Short: "Fill a fleet and see how much of it is left over",
		Long: `Replay a trace in the openb format and measure how much GPU stays unallocated.

Without --lifetimes the published protocol is replayed: pods in random order,
then pods drawn from the trace until the demand is --load times the capacity, one
by one; a pod that does not fit is dropped, and no pod ends.

With --lifetimes pods arrive at random times (Poisson) and run for a random time
(exponential); a pod that does not fit waits. Each load of --at is a run of its own.

Decisions per second are those of one more run that measures nothing else, by
processor time, on one core.`,
		Example: `  tangram simulate pack --nodes nodes.csv --pods pods.csv
  tangram simulate pack --nodes nodes.csv --pods pods.csv --policy fgd,tangram --html report.html
  tangram simulate pack --nodes nodes.csv --pods pods.csv --lifetimes --seed 21 --seeds 4 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			return Run(config, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&config.Nodes, "nodes", "", "node list, openb format (required)")
	flags.StringVar(&config.Pods, "pods", "", "pod list, openb format (required)")
	flags.StringSliceVar(&config.Policies, "policy", config.Policies, "policies to compare: random, dotprod, clustering, packing, bestfit, fgd, tangram")
	flags.Float64Var(&config.Load, "load", config.Load, "GPU demand to replay, as a part of capacity")
	flags.Uint64Var(&config.Seed, "seed", config.Seed, "random seed of the first run")
	flags.IntVar(&config.Seeds, "seeds", config.Seeds, "number of runs, with ascending seeds")
	flags.Float64SliceVar(&config.At, "at", nil, "loads to measure at (default 0.8,1.0,1.3; with --lifetimes 0.9,1.0,1.1)")
	flags.StringVar(&config.Workload, "workload", config.Workload, "how tangram knows the workload: online (learned from arrivals) or oracle (the trace)")
	flags.BoolVar(&config.Lifetimes, "lifetimes", false, "pods end after a while")
	flags.IntVar(&config.Scale, "scale", config.Scale, "take every node so many times, to see what a larger fleet costs")
	flags.BoolVar(&config.JSON, "json", false, "print JSON")
	flags.StringVar(&config.HTML, "html", "", "write a page with curves and a map of the fleet to this file")
	flags.StringVar(&config.SVG, "svg", "", "write the curve of what is lost as a picture to this file")
	return cmd
}

func newGenerateCommand() *cobra.Command {
	var nodes, pods string
	size, seed := Size{Nodes: 200, Pods: 1500}, uint64(1)
	cmd := &cobra.Command{
		Use:     "generate",
		Short:   "Write a made-up trace in the openb format, to try things out",
		Example: "  tangram simulate generate --nodes nodes.csv --pods pods.csv",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			switch {
			case nodes == "" || pods == "":
				return Inputf("--nodes and --pods are needed: the files to write")
			case size.Nodes < 1 || size.Nodes > 100_000:
				return Inputf("--node-count %d is not in 1..100000", size.Nodes)
			case size.Pods < 1 || size.Pods > 1_000_000:
				return Inputf("--pod-count %d is not in 1..1000000", size.Pods)
			}
			var n, p bytes.Buffer
			if err := Generate(&n, &p, size, seed); err != nil {
				return err
			}
			return errors.Join(os.WriteFile(nodes, n.Bytes(), 0o644), os.WriteFile(pods, p.Bytes(), 0o644))
		},
	}
	cmd.Flags().StringVar(&nodes, "nodes", "", "node list to write (required)")
	cmd.Flags().StringVar(&pods, "pods", "", "pod list to write (required)")
	cmd.Flags().IntVar(&size.Nodes, "node-count", size.Nodes, "number of nodes")
	cmd.Flags().IntVar(&size.Pods, "pod-count", size.Pods, "number of pods")
	cmd.Flags().Uint64Var(&seed, "seed", seed, "random seed")
	cmd.AddCommand(newGenerateQueueCommand())
	return cmd
}

func newGenerateQueueCommand() *cobra.Command {
	jobs, count, seed := "", 2000, uint64(1)
	cmd := &cobra.Command{
		Use:     "queue",
		Short:   "Write a made-up timed trace, for simulate queue",
		Example: "  tangram simulate generate queue --jobs jobs.csv && tangram simulate queue --jobs jobs.csv --gpus 64",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			switch {
			case jobs == "":
				return Inputf("--jobs is needed: the file to write")
			case count < 1 || count > 1_000_000:
				return Inputf("--job-count %d is not in 1..1000000", count)
			}
			var out bytes.Buffer
			if err := GenerateJobs(&out, count, seed); err != nil {
				return err
			}
			return os.WriteFile(jobs, out.Bytes(), 0o644)
		},
	}
	cmd.Flags().StringVar(&jobs, "jobs", "", "timed trace to write (required)")
	cmd.Flags().IntVar(&count, "job-count", count, "number of jobs")
	cmd.Flags().Uint64Var(&seed, "seed", seed, "random seed")
	return cmd
}
