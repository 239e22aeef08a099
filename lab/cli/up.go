package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/lab/operators"
)

// defaultDir is where up keeps its state and down looks for it.
const defaultDir = ".tangram"

// upOptions are the flags of up.
type upOptions struct {
	dir    string
	bin    string
	fleet  string
	demo   bool
	bare   bool
	detach bool
	// monitoring runs Prometheus, too.
	monitoring bool
	// operators run, too.
	operators []string
	// dra publishes the GPUs as ResourceSlices, too.
	dra bool

	// noOpen opens no browser.
	noOpen bool

	// worker marks the background process of --detach.
	worker bool
}

func newUp() *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a local Kubernetes cluster with simulated GPU nodes and Tangram",
		Long: `Start a real Kubernetes control plane on this machine: etcd, kube-apiserver,
kube-controller-manager, gpu-scheduler and gpu-controller, with KWOK playing the
nodes and gpu-agent their GPUs. Everything listens on loopback only and keeps its state under one directory.

It stays in the foreground until Ctrl-C; objects survive and are there at the next
start. With --detach it returns once the cluster is ready.

With --bare nothing of Tangram's is in the cluster: install it with helm, as on a real
one (docs/guides/install.md). Its pods run as processes of this machine.`,
		Example: `  tangram up --demo
  tangram up --operators kuberay,jobset
  tangram up --detach --fleet examples/fleet.yaml
  tangram down`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.bare && o.monitoring {
				return &ask.UsageError{Message: "--bare, --monitoring: what is watched is Tangram, which --bare leaves out"}
			}
			if o.bare && o.dra {
				return &ask.UsageError{Message: "--bare, --dra: the driver is Tangram's agent, which --bare leaves out; install it with agent.dra.enabled=true"}
			}
			if o.bare && o.demo {
				return &ask.UsageError{Message: "--bare, --demo: the sample workloads need Tangram, which --bare leaves out"}
			}
			if o.bare && len(o.operators) > 0 {
				return &ask.UsageError{Message: "--bare, --operators: operators need pods to be placed, and --bare leaves Tangram out"}
			}
			if err := o.complete(); err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return misused(err)
			}
			ctx, stop := untilSignalled(cmd.Context())
			defer stop()
			switch {
			case o.worker:
				return work(ctx, o, cmd.OutOrStdout())
			case o.detach:
				return detach(ctx, o, cmd.OutOrStdout())
			}
			return newSession(o, cmd.OutOrStdout()).run(ctx, nil)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.dir, "dir", defaultDir, "directory of the cluster's state, logs and kubeconfig")
	flags.StringVar(&o.fleet, "fleet", "", "file that describes the simulated nodes (default: the last one used, or a built-in mixed fleet)")
	flags.BoolVar(&o.demo, "demo", false, "submit sample workloads and show where they went")
	flags.BoolVar(&o.bare, "bare", false, "start a cluster without Tangram, to install it with helm")
	flags.BoolVar(&o.detach, "detach", false, "return once the cluster is ready; end it with tangram down")
	flags.BoolVar(&o.monitoring, "monitoring", false, "run Prometheus with Tangram's alerts beside the cluster (make monitoring builds it)")
	flags.StringSliceVar(&o.operators, "operators", nil, "run operators of other projects beside the cluster (make operators builds them): "+strings.Join(operators.Names(), ", "))
	flags.BoolVar(&o.dra, "dra", false, "publish the simulated GPUs as ResourceSlices too, with DeviceClasses gpu.tangram.dev and mig.tangram.dev")
	flags.BoolVar(&o.noOpen, "no-open", false, "open no browser; the web page's URL is printed")
	flags.StringVar(&o.bin, "bin", "", "folder of the control plane's programs (default: this program's own)")
	flags.BoolVar(&o.worker, workerFlag, false, "")
	if err := flags.MarkHidden(workerFlag); err != nil {
		panic(err) // the flag is defined one line above
	}
	return cmd
}

// complete makes the paths absolute: the background process and messages need them
// independent of the working directory.
func (o *upOptions) complete() error {
	if o.bin == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find the folder of this program (or set --bin): %w", err)
		}
		o.bin = filepath.Dir(self)
	}
	for _, path := range []*string{&o.dir, &o.bin, &o.fleet} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	return nil
}

// check refuses names and files that cannot be used, before anything is started: also
// before the background process is, which could tell of them by a text alone.
func (o *upOptions) check() error {
	for _, name := range o.operators {
		if !slices.Contains(operators.Names(), name) {
			return fmt.Errorf("--operators: no operator %q; there are: %s", name, strings.Join(operators.Names(), ", "))
		}
	}
	if o.fleet == "" {
		return nil
	}
	if _, err := readFleet(o.fleet); err != nil {
		return fmt.Errorf("--fleet: %w", err)
	}
	return nil
}

// untilSignalled returns a context that ends with the first signal to stop. A
// second one ends this process at once, and the children with it.
func untilSignalled(parent context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(parent, signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// run is the whole life of a cluster in the foreground: start, wait, stop. ready
// is called, if not nil, once everything serves.
func (s *session) run(ctx context.Context, ready func()) error {
	start := s.start
	if s.options.bare {
		start = s.startBare
	}
	if err := start(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			err = errors.New("interrupted") // the error of the interrupted step does not matter
		}
		return errors.Join(err, s.stop())
	}
	if ready != nil {
		ready()
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-s.cluster.Failed():
		s.say("%v", failure)
		failure = errors.New("the cluster was stopped because a component kept crashing")
	}
	return errors.Join(failure, s.stop())
}

func (s *session) stop() error {
	if s.cluster == nil {
		return nil
	}
	begin := time.Now()
	s.say("stopping")
	if s.beforeStop != nil {
		s.beforeStop()
	}
	err := s.cluster.Stop()
	s.say("stopped (%s); the state is kept in %s", local.Elapsed(begin), s.options.dir)
	return err
}
