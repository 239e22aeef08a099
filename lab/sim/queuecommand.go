package sim

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/core/arbiter"
)

func newQueueCommand() *cobra.Command {
	config := DefaultQueueConfig()
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Replay a timed trace and see how long jobs wait",
		Long: `Replay a timed trace with the code that decides in the scheduler when and where jobs
start, and measure waiting, utilization and fairness.

The trace is a CSV file with the columns timestamp (seconds, or 2006-01-02 15:04:05),
duration (seconds), num_gpus, gpu_time, cluster (the queue) and, optionally, priority.
A job of more GPUs than a node has is a gang of several members.

Policies; in one queue, the queues of the trace are its users:
` + listPolicies(),
		Example: `  tangram simulate queue --jobs philly.csv --gpus 384 --policy fifo,sjf,tangram
  tangram simulate queue --jobs philly.csv --runtimes learned --json --html report.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			for _, name := range []string{"order", "aging", "preempt", "reservations", "patience"} {
				if cmd.Flags().Changed(name) && !slices.Contains(config.Policies, "tangram") {
					return Inputf("--%s is a setting of tangram, which --policy %s does not name", name, strings.Join(config.Policies, ","))
				}
			}
			return RunQueue(config, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	config.flags(cmd, queuePolicyNames(), "curves")
	flags.StringVar(&config.Jobs, "jobs", "", "timed trace (required)")
	flags.IntVar(&config.GPUs, "gpus", config.GPUs, "GPUs of the cluster")
	flags.IntVar(&config.GPUsPerNode, "gpus-per-node", config.GPUsPerNode, "GPUs of a node")
	flags.StringVar(&config.Runtimes, "runtimes", config.Runtimes, "what is known of runtimes: declared (all), learned (from jobs that ended) or unknown")
	flags.StringVar(&config.Order, "order", config.Order, "order inside tangram's queues: "+arbiter.PolicyChoice())
	flags.DurationVar(&config.Aging, "aging", config.Aging, "how long a job waits before it goes ahead of tangram's --order")
	flags.BoolVar(&config.Preempt, "preempt", false, "let tangram evict")
	flags.IntVar(&config.Reservations, "reservations", config.Reservations, "for how many jobs tangram keeps nodes at a time")
	flags.DurationVar(&config.Patience, "patience", config.Patience, "how long a job waits before tangram keeps nodes for it though it is unknown when they will be free")
	return cmd
}

// listPolicies is one line per policy.
func listPolicies() string {
	var lines []string
	for _, name := range queuePolicyNames() {
		lines = append(lines, fmt.Sprintf("  %-10s  %s", name, aboutQueuePolicy(name)))
	}
	return strings.Join(lines, "\n")
}

// RunQueue replays a timed trace and reports.
func RunQueue(config QueueConfig, out, log io.Writer) error {
	if err := config.complete(); err != nil {
		return err
	}
	var jobs []TimedJob
	err := readFile("--jobs", config.Jobs, func(name string, r io.Reader) (err error) {
		jobs, err = ReadJobs(name, r)
		return err
	})
	if err != nil {
		return inputError(err)
	}
	reports, err := compare(&config.Output, log, func(policy string, tell func(float64, string)) (*QueueReport, error) {
		begin := time.Now()
		r, err := newQueueRun(policy, &config, jobs)
		if err != nil {
			return nil, err
		}
		if err := r.replay(func(part float64) { tell(part, policy) }); err != nil {
			return nil, err
		}
		return r.summary(policy, time.Since(begin)), nil
	})
	if err != nil {
		return err
	}
	return deliver(&config.Output, out, reports,
		func() error { return writeQueuePage(&config, reports) },
		func(w io.Writer) error { return writeQueueTable(w, &config, reports) })
}

// writeQueueTable prints the figures in hours and percent.
func writeQueueTable(w io.Writer, config *QueueConfig, reports []*QueueReport) error {
	fmt.Fprintf(w, "%d jobs on %d GPUs in nodes of %d, runtimes %s; times in hours\n\n", reports[0].Jobs, config.GPUs, config.GPUsPerNode, config.Runtimes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "policy\tdelay mean\tp50\tp95\tp99\tJCT mean\tp50\tp95\tp99\tmakespan\tutilization\tcontended\tJain\trho mean\tmax\tviolations\tdecisions/s\twall s")
	h := func(seconds float64) string { return fmt.Sprintf("%.2f", seconds/3600) }
	for _, r := range reports {
		d, c := r.All.Delay, r.All.Completion
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f%%\t%.2f%%\t%.4f\t%.3f\t%.1f\t%d\t%.0f\t%.1f\n", r.Policy,
			h(d.Mean), h(d.P50), h(d.P95), h(d.P99), h(c.Mean), h(c.P50), h(c.P95), h(c.P99), h(r.MakespanSeconds),
			r.UtilizationPercent, r.ContendedUtilizationPercent, r.Jain, r.FinishTimeFairness.Mean, r.FinishTimeFairness.Max, r.GangViolations, r.DecisionsPerSecond, r.WallSeconds)
	}
	fmt.Fprintln(t)
	fmt.Fprint(t, "mean delay by GPUs\t")
	for _, s := range sizeClasses {
		fmt.Fprintf(t, "%s\t", s.name)
	}
	fmt.Fprintln(t, "preemptions\tlost GPU hours")
	for _, r := range reports {
		fmt.Fprintf(t, "%s\t", r.Policy)
		for _, s := range sizeClasses {
			fmt.Fprintf(t, "%s\t", h(r.BySize[s.name].Delay.Mean))
		}
		fmt.Fprintf(t, "%d\t%.0f\n", r.Preemptions, r.LostGPUHours)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if n := reports[0].Rejected; n > 0 {
		fmt.Fprintf(w, "\n%d jobs are larger than the cluster and were left out\n", n)
	}
	return nil
}
