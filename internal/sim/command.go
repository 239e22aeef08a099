package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"

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
	cmd.AddCommand(newPackCommand())
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
by one; who does not fit is gone, and nothing ends.

With --lifetimes pods arrive at random times (Poisson) and run for a random time
(exponential); who does not fit waits. Each load of --at is a run of its own.

Decisions per second count the time spent deciding, on one core.`,
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
	return cmd
}

// Run replays and reports.
func Run(config Config, out, log io.Writer) error {
	if err := config.complete(); err != nil {
		return err
	}
	t, err := ReadTrace(config.Nodes, config.Pods)
	if err != nil {
		return err
	}
	if t.Demand() == 0 {
		return fmt.Errorf("%s: no pod asks for a GPU", config.Pods)
	}
	if t.Capacity() == 0 {
		return fmt.Errorf("%s: no node has a GPU", config.Nodes)
	}
	if config.Scale > 1 {
		t = t.Times(config.Scale)
	}
	reports, err := simulate(t, &config, newProgress(log))
	if err != nil {
		return err
	}
	if config.JSON {
		return writeJSON(out, reports)
	}
	return writeTable(out, &config, reports)
}

// simulate runs every policy with every seed, one after the other on one core,
// so that the time spent deciding is not shared with anything.
func simulate(t *Trace, config *Config, p *progress) ([]*Report, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var reports []*Report
	for i, policy := range config.Policies {
		var runs []*run
		for s := range config.Seeds {
			seed := config.Seed + uint64(s)
			done := float64(i*config.Seeds+s) / float64(len(config.Policies)*config.Seeds)
			tell := func(part float64) {
				p.show(done+part/float64(len(config.Policies)*config.Seeds), "%s, seed %d", policy, seed)
			}
			replay := static
			if config.Lifetimes {
				replay = timed
			}
			r, err := replay(t, config, policy, seed, tell)
			if err != nil {
				return nil, err
			}
			if len(runs) > 0 {
				r.end = nil // only the first is shown
			}
			runs = append(runs, r)
		}
		reports = append(reports, summarize(policy, config, runs))
	}
	p.clear()
	return reports, nil
}

// writeJSON writes one object for one policy, a list for several.
func writeJSON(w io.Writer, reports []*Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if len(reports) == 1 {
		return e.Encode(reports[0])
	}
	return e.Encode(reports)
}

func writeTable(w io.Writer, config *Config, reports []*Report) error {
	fmt.Fprintf(w, "%d seeds from %d; percent of all GPUs, mean±deviation\n\n", config.Seeds, config.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "policy\tload\tunallocated\tfragmented\tby GPU requests\t")
	if config.Lifetimes {
		fmt.Fprint(t, "wait (lifetimes)\t")
	}
	fmt.Fprintln(t, "decisions/s")
	for _, r := range reports {
		for _, at := range config.At {
			f := r.At[loadKey(at)]
			fmt.Fprintf(t, "%s\t%s\t%v\t%v\t%v\t", r.Policy, loadKey(at), f.UnallocatedPercent, f.FragPercent, f.FragGPUPercent)
			if f.Wait != nil {
				fmt.Fprintf(t, "%.4f±%.4f\t", f.Wait.Mean, f.Wait.Std)
			}
			fmt.Fprintf(t, "%.0f\n", r.DecisionsPerSecond)
		}
	}
	return t.Flush()
}
