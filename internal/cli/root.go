package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/bench"
	"github.com/tangram-dev/tangram/internal/version"
)

// New returns the tangram command.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "tangram",
		Short: "Tangram, a GPU scheduler for Kubernetes",
		// main prints the error; usage would only help after a mistyped flag, which
		// cobra's own message already names.
		SilenceErrors: true,
		Version:       version.Get().String(),
		SilenceUsage:  true,
	}
	root.AddCommand(newUp(), newDown(), newFault(), newDrill(), bench.NewCommand(), newSimulate(), newVersion())
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
