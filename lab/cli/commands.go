package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/lab/bench"
	"github.com/tangram-dev/tangram/lab/sim"
	"github.com/tangram-dev/tangram/lab/starts"
)

// Commands are the laboratory's commands.
func Commands() []*cobra.Command {
	simulate := sim.NewCommand()
	simulate.AddCommand(starts.NewCommand())
	out := []*cobra.Command{newUp(), newDown(), newFault(), newDrill(), bench.NewCommand(), simulate}
	for _, c := range out {
		markUsage(c)
	}
	return out
}

// markUsage makes a command, and those below it, return flags and files that bench and sim
// cannot use as errors of usage, for the exit code.
func markUsage(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			var flag *bench.FlagError
			var input *sim.InputError
			if errors.As(err, &flag) || errors.As(err, &input) {
				return misused(err)
			}
			return err
		}
	}
	for _, sub := range cmd.Commands() {
		markUsage(sub)
	}
}

// misused is an error of usage: a flag, an argument or a file that was given cannot be used.
func misused(err error) error { return &ask.UsageError{Message: err.Error()} }
