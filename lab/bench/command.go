package bench

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// binderUse is the hidden subcommand that runs the no-thought binder.
const binderUse = "binder"

// NewCommand is "tangram bench". It must be reachable under the same words when
// this program is started again, because the ceiling is a child process of it.
func NewCommand() *cobra.Command {
	config := DefaultConfig()
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure Tangram against kube-scheduler and the API's ceiling",
		Long: `Measure how fast pods are bound, side by side on this machine.

Each contender gets a control plane of its own (etcd and kube-apiserver), the
same nodes and the same pods from the same client:

  ceiling          a no-thought binder: what the API itself can do
  kube-scheduler   the stock scheduler
  tangram          gpu-scheduler with its default configuration

and, where --contenders names it, tangram-recording: what a recording costs.

With --gangs, pods come in gangs: Tangram binds the pods of a gang together or not
at all, the others bind the same pods one by one.

The table shows medians over the rounds; ratios compare contenders of one round.
The command fails if a result is not valid: every pod bound, no node over its
GPUs, no gang in part and, for Tangram, a record on every pod and no device held
twice.`,
		Example: `  tangram bench
  tangram bench --nodes 5000 --pods 2000 --rounds 3 --json bench.json
  tangram bench --rate 100 --contenders tangram
  tangram bench --gangs 250 --size 8
  tangram bench --pending 5000 --ask why=20 --contenders tangram --rounds 3
  tangram bench --claims --contenders kube-scheduler,tangram`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if config.Gangs != 0 && cmd.Flags().Changed("pods") {
				return flagErrorf("pods", "with --gangs the number of pods is --gangs times --size")
			}
			executable, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			// The words after the root command: "bench" under tangram.
			self := append([]string{executable}, strings.Fields(cmd.CommandPath())[1:]...)
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			// From here on a failure is not one of usage.
			cmd.SilenceUsage = true
			return Run(ctx, config, self, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&config.Nodes, "nodes", config.Nodes, "number of nodes")
	flags.IntVar(&config.GPUs, "gpus", config.GPUs, "GPUs per node")
	flags.IntVar(&config.Pods, "pods", config.Pods, "number of pods; all must fit")
	flags.IntVar(&config.Gangs, "gangs", config.Gangs, "number of gangs, in place of --pods")
	flags.IntVar(&config.Size, "size", config.Size, "pods of each gang")
	flags.IntVar(&config.GPUsPerPod, "gpus-per-pod", config.GPUsPerPod, "whole GPUs that each pod asks for")
	flags.IntVar(&config.Pending, "pending", config.Pending, "pods that wait meanwhile and fit on no node, each of another kind")
	flags.DurationVar(&config.Scrape, "scrape", config.Scrape, "how often tangram's metrics are read meanwhile; 0 for not at all")
	flags.Var(&config.Ask, "ask", "question that is asked meanwhile, and how often per second (why=20): tangram then runs twice in a round, with and without; about the --pending pods, where there are any")
	flags.BoolVar(&config.Claims, "claims", config.Claims, "pods ask through ResourceClaims, nodes publish ResourceSlices; the ceiling binds without allocating")
	flags.Float64Var(&config.Rate, "rate", config.Rate, "arrival of pods per second, those of a gang together; 0 creates them as fast as possible")
	flags.StringSliceVar(&config.Contenders, "contenders", config.Contenders, "contenders to run, in this order")
	flags.IntVar(&config.Rounds, "rounds", config.Rounds, "how often everything is repeated; each round starts with another contender")
	flags.Float64Var(&config.MaxNoise, "max-noise", config.MaxNoise,
		"share of the machine that other processes may take; above it a trial is repeated, twice at most")
	flags.StringVar(&config.JSON, "json", config.JSON, "file for the full report")
	flags.StringVar(&config.Out, "out", config.Out, "empty or new folder for state and logs (default a temporary one)")
	flags.StringVar(&config.Bin, "bin", config.Bin, "folder with the programs (default the one of this program)")
	flags.BoolVar(&config.Keep, "keep", config.Keep, "keep state and logs after a valid run; others always keep them")
	cmd.AddCommand(newBinderCommand())
	return cmd
}

// newBinderCommand is hidden: it is a part of the benchmark, and would bind pods
// without any check on a real cluster.
func newBinderCommand() *cobra.Command {
	var b binder
	cmd := &cobra.Command{
		Use:    binderUse,
		Short:  "Bind pods to nodes one after the other, without deciding",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			cmd.SilenceUsage = true
			b.log = cmd.ErrOrStderr()
			return b.run(ctx)
		},
	}
	ceiling, _ := contenderByName(Ceiling)
	b.schedulerName = ceiling.schedulerName
	cmd.Flags().StringVar(&b.kubeconfig, "kubeconfig", "", "cluster to bind in")
	cmd.Flags().StringVar(&b.address, "address", "127.0.0.1:0", "where to serve /readyz")
	return cmd
}
