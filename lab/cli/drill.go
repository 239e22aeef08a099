package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/lab/drill"
)

func newDrill() *cobra.Command {
	var o drill.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Break a local cluster on purpose and measure how it recovers",
		Long: `Start a local cluster with simulated GPU nodes, two schedulers and gpu-controller,
break one thing after the other, and measure how long it takes until the fault is acted
on, until the service is whole again, and until what was repaired is back in service.

All faults take about 15 minutes, with --fast about one. The exit status is not 0 when the
service was not whole again within the target.

Faults: ` + strings.Join(drill.Names(), ", ") + `.`,
		Example: `  tangram drill --fast                       # seconds instead of minutes: does it work
  tangram drill --json > drill.json          # the documents' intervals: how long does it take
  tangram drill --faults node-lost,device-xid`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return &ask.UsageError{Message: err.Error()}
			}
			if o.Bin == "" {
				self, err := os.Executable()
				if err != nil {
					return fmt.Errorf("find the folder of this program (or set --bin): %w", err)
				}
				o.Bin = filepath.Dir(self)
			}
			if o.Dir == "" {
				dir, err := os.MkdirTemp("", "tangram-drill")
				if err != nil {
					return err
				}
				defer os.RemoveAll(dir)
				o.Dir = dir
			}
			began := time.Now()
			o.Say = func(format string, args ...any) {
				fmt.Fprintf(cmd.ErrOrStderr(), "%6.1fs "+format+"\n", append([]any{time.Since(began).Seconds()}, args...)...)
			}
			ctx, stop := untilSignalled(cmd.Context())
			defer stop()
			o.Say("starting a cluster of %d nodes in %s", o.Nodes, o.Dir)
			report, err := drill.Run(ctx, o)
			if report != nil {
				if asJSON {
					out := json.NewEncoder(cmd.OutOrStdout())
					out.SetIndent("", "  ")
					err = errors.Join(err, out.Encode(report))
				} else {
					err = errors.Join(err, report.Write(cmd.OutOrStdout()))
				}
			}
			if ctx.Err() != nil {
				return errors.New("interrupted: faults after the last that was measured were not tried")
			}
			if err == nil && !report.OK() {
				err = errors.New("the target was missed")
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Fast, "fast", false, "look every second instead of at the documents' intervals (30 s, 60 s)")
	f.StringSliceVar(&o.Faults, "faults", nil, "faults to inject (default all)")
	_ = cmd.RegisterFlagCompletionFunc("faults", cobra.FixedCompletions(drill.Names(), cobra.ShellCompDirectiveNoFileComp))
	f.IntVar(&o.Nodes, "nodes", 20, "number of simulated nodes of 8 GPUs")
	f.DurationVar(&o.Target, "target", 5*time.Minute, "time within which the service must be whole again")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON; progress goes to standard error in any case")
	f.StringVar(&o.Dir, "dir", "", "directory of the cluster's state and logs (default: one that is removed afterwards)")
	f.StringVar(&o.Bin, "bin", "", "folder of the programs (default: this program's own)")
	return cmd
}
