package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/bench"
	"github.com/tangram-dev/tangram/internal/cli/see"
	"github.com/tangram-dev/tangram/internal/version"
	"github.com/tangram-dev/tangram/internal/web"
)

// New returns the tangram command.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   program,
		Short: "Tangram, a GPU scheduler for Kubernetes",
		Long: `Ask Tangram, a GPU scheduler for Kubernetes, what it does and why; run it on this machine;
simulate and measure it.

Exit codes: 0 fine, 1 error, 2 usage, 3 not found, 4 forbidden or not authenticated,
5 unreachable; why and whatif with --exit-code: 10 waits, 11 will not start as things are; diagnose and
migrate check: 20 something was found.`,
		// main prints the error; usage would only help after a mistyped flag, which
		// cobra's own message already names.
		SilenceErrors: true,
		Version:       version.Get().String(),
		SilenceUsage:  true,
	}
	asks := &cobra.Group{ID: "ask", Title: "Ask the scheduler:"}
	runs := &cobra.Group{ID: "run", Title: "Run it here, simulate, measure:"}
	looks := &cobra.Group{ID: "look", Title: "Look at nodes, and at other schedulers' configuration:"}
	root.AddGroup(asks, looks, runs)
	for _, c := range see.Commands(see.Config{Page: web.Handler, Replica: offline}) {
		c.GroupID = asks.ID
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{newUp(), newDown(), newFault(), newDrill(), bench.NewCommand(), newSimulate()} {
		c.GroupID = runs.ID
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{newDiagnose(), newMigrate()} {
		c.GroupID = looks.ID
		root.AddCommand(c)
	}
	root.AddCommand(newVersion())
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "tangram", version.Get())
			return err
		},
	}
}

// defaultDir is where up keeps its state and down looks for it.
const defaultDir = ".tangram"
