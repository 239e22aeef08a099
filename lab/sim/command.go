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

func newGenerateCommand() *cobra.Command {
	var nodes, pods string
	size, seed := Size{Nodes: 200, Pods: 1500}, uint64(1)
	cmd := &cobra.Command{
		Use:     "generate",
		Short:   "Write a generated trace in the openb format, to try things out",
		Example: "  tangram simulate generate --nodes nodes.csv --pods pods.csv",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			var bad problems
			bad.needs("--nodes", nodes, "the file to write")
			bad.needs("--pods", pods, "the file to write")
			bad.count("--node-count", size.Nodes, 100_000)
			bad.count("--pod-count", size.Pods, 1_000_000)
			if err := bad.err(); err != nil {
				return err
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
		Short:   "Write a generated timed trace, for simulate queue",
		Example: "  tangram simulate generate queue --jobs jobs.csv && tangram simulate queue --jobs jobs.csv --gpus 64",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			var bad problems
			bad.needs("--jobs", jobs, "the file to write")
			bad.count("--job-count", count, 1_000_000)
			if err := bad.err(); err != nil {
				return err
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
