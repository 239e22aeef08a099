package sim

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/core/pack"
)

func newPackCommand() *cobra.Command {
	config := DefaultPackConfig()
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
			return RunPack(config, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	config.flags(cmd, packPolicyNames, "curves and a map of the fleet")
	flags.StringVar(&config.Nodes, "nodes", "", "node list, openb format (required)")
	flags.StringVar(&config.Pods, "pods", "", "pod list, openb format (required)")
	flags.Float64Var(&config.Load, "load", config.Load, "GPU demand to replay, as a part of capacity")
	flags.Uint64Var(&config.Seed, "seed", config.Seed, "random seed of the first run")
	flags.IntVar(&config.Seeds, "seeds", config.Seeds, "number of runs, with ascending seeds")
	flags.Float64SliceVar(&config.At, "at", nil, "loads to measure at (default 0.8,1.0,1.3; with --lifetimes 0.9,1.0,1.1)")
	flags.StringVar(&config.Workload, "workload", config.Workload, "how tangram knows the workload: online (learned from arrivals) or oracle (the trace)")
	flags.BoolVar(&config.Lifetimes, "lifetimes", false, "pods end after a while")
	flags.IntVar(&config.Scale, "scale", config.Scale, "take every node so many times, to see what a larger fleet costs")
	flags.StringVar(&config.SVG, "svg", "", "write the curve of what is lost as a picture to this file")
	return cmd
}

// RunPack fills a fleet and reports.
func RunPack(config PackConfig, out, log io.Writer) error {
	if err := config.complete(); err != nil {
		return err
	}
	t, err := ReadTrace(config.Nodes, config.Pods)
	if err != nil {
		return inputError(err)
	}
	switch {
	case t.Demand() == 0:
		return Inputf("--pods: %s: no pod asks for a GPU", config.Pods)
	case t.Capacity() == 0:
		return Inputf("--nodes: %s: no node has a GPU", config.Nodes)
	case len(t.Nodes)*config.Scale > pack.MaxNodes:
		return Inputf("--scale %d: more than %d nodes", config.Scale, pack.MaxNodes)
	}
	t = t.Times(config.Scale)
	reports, err := simulatePack(t, &config, log)
	if err != nil {
		return err
	}
	if config.SVG != "" {
		if err := render(config.SVG, "picture", lostChart(reports)); err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
	}
	return deliver(&config.Output, out, reports,
		func() error { return writePackPage(t, &config, reports) },
		func(w io.Writer) error { return writePackTable(w, &config, reports) })
}

// simulatePack replays every policy with every seed, and with the first seed once more to
// see how long deciding takes.
func simulatePack(t *Trace, config *PackConfig, log io.Writer) ([]*PackReport, error) {
	return compare(&config.Output, log, func(policy string, tell func(float64, string)) (*PackReport, error) {
		var runs []*packRun
		for s := range config.Seeds + 1 {
			r := &packReplay{trace: t, config: config, policy: policy, seed: config.Seed + uint64(s)}
			if r.bare = s == config.Seeds; r.bare {
				r.seed = config.Seed
			}
			r.tell = func(part float64) {
				tell((float64(s)+part)/float64(config.Seeds+1), fmt.Sprintf("%s, seed %d", policy, r.seed))
			}
			run, err := r.run()
			if err != nil {
				return nil, err
			}
			if s > 0 {
				run.end = nil // the page shows the first only
			}
			runs = append(runs, run)
		}
		return summarize(policy, config, runs[:config.Seeds], runs[config.Seeds]), nil
	})
}

func writePackTable(w io.Writer, config *PackConfig, reports []*PackReport) error {
	plural := "s"
	if config.Seeds == 1 {
		plural = ""
	}
	fmt.Fprintf(w, "%d seed%s from %d; percent of all GPUs, mean±deviation\n\n", config.Seeds, plural, config.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "policy\tload\tunallocated\tfragmented\tby GPU requests\t")
	if config.Lifetimes {
		fmt.Fprint(t, "wait (lifetimes)\t")
	}
	fmt.Fprintln(t, "decisions/s\tratings/decision")
	for _, r := range reports {
		for _, at := range config.At {
			f := r.At[loadKey(at)]
			fmt.Fprintf(t, "%s\t%s\t%v\t%v\t%v\t", r.Policy, loadKey(at), f.UnallocatedPercent, f.FragPercent, f.FragGPUPercent)
			if f.Wait != nil {
				fmt.Fprintf(t, "%.4f±%.4f\t", f.Wait.Mean, f.Wait.Std)
			}
			fmt.Fprintf(t, "%.0f\t%.1f\n", r.DecisionsPerSecond, r.RatingsPerDecision)
		}
	}
	return t.Flush()
}
