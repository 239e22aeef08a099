package plugin

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	kubeversion "k8s.io/component-base/version"
	"k8s.io/component-base/version/verflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"

	"github.com/tangram-dev/tangram/internal/kube/watch"
	"github.com/tangram-dev/tangram/internal/version"
)

// NewCommand is the gpu-scheduler command: kube-scheduler's flags and behaviour,
// Tangram's plugins. defaults is the configuration used without --config.
func NewCommand(defaults []byte) *cobra.Command {
	gateProblem := changeDefaults()
	opts := options.NewOptions()
	asked := &questions{}
	asked.addFlags(opts.Flags)
	cmd := &cobra.Command{
		Use: "gpu-scheduler",
		Long: `gpu-scheduler is kube-scheduler with Tangram's plugins: it gives every pod that
asks for GPUs its devices, and says why when it cannot. It takes kube-scheduler's
flags and configuration; --kubeconfig, --kube-api-qps and the other connection
flags override the configuration file.`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if gateProblem != nil {
				return gateProblem
			}
			return opts.ComponentGlobalsRegistry.Set()
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, opts, asked, defaults) },
	}
	verflag.AddFlags(opts.Flags.FlagSet("global"))
	globalflag.AddGlobalFlags(opts.Flags.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range opts.Flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	cols, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *opts.Flags, cols)
	return cmd
}

// changeDefaults switches off what kube-scheduler has on and Tangram is better off
// without; --feature-gates still decides. It must come before the flags are made.
//
//   - NominatedNodeNameForExpectation writes to the API where every pod that waits at
//     Permit will go: one more write per member of a gang, for a wait of milliseconds.
//   - SchedulerPopFromBackoffQ races with activation: a pod that is activated while it is
//     popped from the back-off queue is lost ("tracked in multiple places").
func changeDefaults() error {
	for _, gate := range []featuregate.Feature{features.NominatedNodeNameForExpectation, features.SchedulerPopFromBackoffQ} {
		if !utilfeature.DefaultFeatureGate.Enabled(gate) {
			continue // done before, by another command of this process
		}
		if err := utilfeature.DefaultMutableFeatureGate.OverrideDefault(gate, false); err != nil {
			return err
		}
	}
	return nil
}

func run(cmd *cobra.Command, opts *options.Options, asked *questions, defaults []byte) error {
	if err := asked.validate(); err != nil {
		return err
	}
	if cmd.Flags().Lookup("version").Value.String() == "true" {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "gpu-scheduler version %s, kube-scheduler %s\n", version.Get(), kubeversion.Get().GitVersion)
		return err
	}
	verflag.PrintAndExitIfRequested() // --version=raw
	gates := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		return fmt.Errorf("logging flags: %w", err)
	}
	cliflag.PrintFlags(cmd.Flags())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	shared := NewShared(watch.Sources{})
	shared.defaults = defaults
	go func() {
		<-server.SetupSignalHandler()
		shared.Shutdown(ctx)
		cancel()
	}()
	cc, sched, err := shared.Setup(ctx, opts)
	if err != nil {
		return err
	}
	if shared.Engine() != nil { // a configuration may leave our plugins out
		shared.checkItself(ctx)
	}
	if err := shared.answerQuestions(ctx, asked, opts, cc); err != nil {
		return err
	}
	if mutable, ok := gates.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	return app.Run(ctx, cc, sched)
}
