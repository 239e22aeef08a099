package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/bench"
	"github.com/tangram-dev/tangram/internal/sim"
)

// New returns the tangram command. version is what the version command prints.
func New(version string) *cobra.Command {
	root := &cobra.Command{
		Use:   "tangram",
		Short: "Tangram, a GPU scheduler for Kubernetes",
		// main prints the error; usage would only help after a mistyped flag, which
		// cobra's own message already names.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newUp(), newDown(), newFault(), newDrill(), bench.NewCommand(), sim.NewCommand(), newVersion(version))
	return root
}

func newVersion(version string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "tangram %s (%s, %s/%s)\n",
				version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// defaultDir is where up keeps its state and down looks for it.
const defaultDir = ".tangram"
