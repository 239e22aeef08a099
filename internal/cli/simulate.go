package cli

import (
	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/replica"
	"github.com/tangram-dev/tangram/internal/sim"
)

// newSimulate is `tangram simulate`: traces on core, and on copies of the scheduler.
func newSimulate() *cobra.Command {
	cmd := sim.NewCommand()
	cmd.AddCommand(replica.NewStartsCommand())
	return cmd
}
