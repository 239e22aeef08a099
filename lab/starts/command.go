package starts

import (
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/lab/sim"
)

// NewCommand is `tangram simulate starts`.
func NewCommand() *cobra.Command {
	var file string
	var asJSON bool
	p := Replay{GPUs: 384, GPUsPerNode: 8, Every: 1, Most: 200}
	jobs := 0
	runtimes := []string{"declared", "learned"}
	cmd := &cobra.Command{
		Use:   "starts",
		Short: "Replay a timed trace and see how far expected starts are off",
		Long: `Replay a timed trace on a copy of the scheduler, ask of jobs that must wait when they are
expected to start, at the moment they come, and compare with when they then start. Jobs that
come later, and runtimes that differ from what was expected, make the difference.

The trace is that of tangram simulate queue (tangram simulate generate queue makes one).`,
		Example: `  tangram simulate starts --jobs philly.csv --first 3000 --every 5
  tangram simulate starts --jobs jobs.csv --gpus 64 --runtimes learned --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			switch {
			case file == "":
				return sim.Inputf("--jobs is missing: a timed trace")
			case p.GPUsPerNode < 1 || p.GPUsPerNode > 64:
				return sim.Inputf("--gpus-per-node: %d is not from 1 to 64", p.GPUsPerNode)
			case p.GPUs < p.GPUsPerNode || p.GPUs%p.GPUsPerNode != 0:
				return sim.Inputf("--gpus: %d is not a multiple of --gpus-per-node, %d", p.GPUs, p.GPUsPerNode)
			case p.Every < 1 || p.Most < 1 || jobs < 0:
				return sim.Inputf("--every and --most must be above 0, --first not below")
			}
			for _, r := range runtimes {
				if r != "declared" && r != "learned" {
					return sim.Inputf("--runtimes: %q is not declared or learned", r)
				}
			}
			f, err := os.Open(file)
			if err != nil {
				return sim.Inputf("--jobs: %w", err)
			}
			defer f.Close()
			if p.Jobs, err = sim.ReadJobs(file, f); err != nil {
				return sim.Inputf("--jobs: %w", err)
			}
			if jobs > 0 && jobs < len(p.Jobs) {
				p.Jobs = p.Jobs[:jobs]
			}
			var all []*Errors
			for _, r := range runtimes {
				p.Declared = r == "declared"
				said := time.Now()
				out, err := p.Measure(cmd.Context(), func(part float64) {
					if time.Since(said) > 5*time.Second {
						said = time.Now()
						fmt.Fprintf(cmd.ErrOrStderr(), "runtimes %s: %.0f%%\n", r, 100*part)
					}
				})
				if err != nil {
					return err
				}
				all = append(all, out)
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(all)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "runtimes\tjobs\twaited\tasked\tno start given\tmedian error\tof wait\tp90 error\tmedian signed\tmedian wait")
			for _, o := range all {
				fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\t%.0f%%\t%s\t%s\t%s\n", o.Runtimes, o.Jobs, o.Waited, o.Asked, o.Unknown, span(o.Median), 100*o.Relative, span(o.P90), span(o.Signed), span(o.Wait))
			}
			return t.Flush()
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&file, "jobs", "", "timed trace (required)")
	flags.IntVar(&p.GPUs, "gpus", p.GPUs, "GPUs of the cluster")
	flags.IntVar(&p.GPUsPerNode, "gpus-per-node", p.GPUsPerNode, "GPUs of a node")
	flags.IntVar(&jobs, "first", 0, "how many jobs of the trace are replayed; 0: all")
	flags.IntVar(&p.Every, "every", p.Every, "of how many jobs that wait one is asked about")
	flags.IntVar(&p.Most, "most", p.Most, "about how many jobs is asked at most")
	flags.StringSliceVar(&runtimes, "runtimes", runtimes, "what is known of runtimes: declared, learned, or both one after the other")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func span(seconds float64) string { return time.Duration(seconds * 1e9).Round(time.Second).String() }
