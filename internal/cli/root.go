package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/cli/see"
	"github.com/tangram-dev/tangram/internal/version"
	"github.com/tangram-dev/tangram/internal/web"
)

// New returns the tangram command. more are commands that the program adds, under a heading
// of their own.
func New(more ...*cobra.Command) *cobra.Command {
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
	add := func(id, title string, commands ...*cobra.Command) {
		if len(commands) > 0 {
			root.AddGroup(&cobra.Group{ID: id, Title: title})
		}
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	add("ask", "Ask the scheduler:", see.Commands(see.Config{Page: web.Handler, Replica: offline})...)
	add("look", "Look at nodes, and at other schedulers' configuration:", newDiagnose(), newMigrate(), newReplay())
	add("run", "Run it here, simulate, measure:", more...)
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
