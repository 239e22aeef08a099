package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/internal/agent/config"
	"github.com/tangram-dev/tangram/internal/agent/export"
	"github.com/tangram-dev/tangram/internal/endpoint"
	"github.com/tangram-dev/tangram/internal/logging"
	"github.com/tangram-dev/tangram/internal/version"
	"github.com/tangram-dev/tangram/internal/version/metric"
)

// flags are those that are not settings of how devices are sold.
type flags struct {
	backend, node, kubeconfig       string
	endpoint                        endpoint.Options
	migOnDemand                     bool
	hamiLibrary, mpsControl, mpsShm string

	settings  config.Loader
	simulator Simulator
}

// NewCommand is the gpu-agent command.
func NewCommand(simulator Simulator) *cobra.Command {
	o := flags{simulator: simulator}
	var log *logging.Options
	cmd := &cobra.Command{
		Use:   "gpu-agent",
		Short: "Describes a node's GPUs, and hands them to containers as the scheduler decided",
		Long: `gpu-agent publishes what a node's GPUs are and how they are (GPUNode, node labels,
metrics by DCGM's names), and keeps the records of pods equal to what kubelet gave
them. With --serve it is the node's device plugin: containers get the devices, MIG
instances and shares that the scheduler chose. Without, it changes nothing that
another device plugin does.

Settings of NVIDIA's device plugin are understood: its configuration file
(CONFIG_FILE), flags and environment variables.`,
		Example: `  gpu-agent --node worker-1                       # beside another device plugin
  gpu-agent --node worker-1 --serve               # in its place
  gpu-agent --backend simulated --fleet fleet.yaml`,
		Args:          cobra.NoArgs,
		Version:       version.Get().String(),
		SilenceUsage:  true,
		SilenceErrors: false,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if err := log.Apply(); err != nil {
				return err
			}
			return o.run(ctx)
		},
	}
	f := cmd.Flags()
	log = logging.New(cmd)
	f.StringVar(&o.backend, "backend", "nvml", "where devices come from: nvml, or simulated (with --fleet)")
	f.StringVar(&o.node, "node", os.Getenv("NODE_NAME"), "name of this node [NODE_NAME]; simulated and empty: all nodes of the fleet, without kubelets")
	f.BoolVar(&o.migOnDemand, "mig-on-demand", true, "with --serve and migStrategy mixed, or with --dra, cut MIG instances as pods need them")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the API server; empty inside a cluster")
	f.StringVar(&o.endpoint.Listen, "listen", "127.0.0.1:9400", "address of /metrics, /healthz and /readyz; empty for none")
	f.StringVar(&o.endpoint.Cert, "tls-cert-file", "", "certificate to serve with; without, plain HTTP")
	f.StringVar(&o.endpoint.Key, "tls-private-key-file", "", "key of the certificate")
	f.StringVar(&o.hamiLibrary, "hami-library-dir", "", "folder of the node with HAMi-core's libvgpu.so and ld.so.preload, for --isolation=hami")
	f.StringVar(&o.mpsControl, "mps-control", "nvidia-cuda-mps-control", "program that controls MPS daemons")
	f.StringVar(&o.mpsShm, "mps-shm-dir", "/dev/shm", "folder of the node that is the daemons' /dev/shm")
	simulator.AddFlags(f)
	settings := flag.NewFlagSet("", flag.ContinueOnError)
	o.settings.Register(settings)
	f.AddGoFlagSet(settings)
	return cmd
}

// validate names the flag that is wrong.
func (o *flags) validate() error {
	switch {
	case o.backend != "nvml" && o.backend != "simulated":
		return fmt.Errorf("--backend: must be nvml or simulated, is %q", o.backend)
	case o.backend == "nvml" && o.node == "":
		return errors.New("--node: missing; in a DaemonSet set NODE_NAME from spec.nodeName")
	}
	if err := o.simulator.Validate(o.backend == "simulated"); err != nil {
		return err
	}
	return o.endpoint.Validate()
}

func (o *flags) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	settings, err := o.settings.Load(config.Sources{Env: os.LookupEnv, Read: os.ReadFile})
	if err != nil {
		return err
	}
	if settings.Agent.Mode == config.Serve && o.node == "" {
		return errors.New("--serve: needs --node")
	}
	for _, note := range settings.Notes {
		klog.Background().Info("Setting has no effect", "setting", note)
	}
	rest, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metric.BuildInfo("gpu-agent"), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if o.node != "" {
		stayLean()
	}
	agents, err := o.agents(ctx, settings, rest, registry)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if o.endpoint.Listen != "" {
		go func() { cancel(o.endpoint.Serve(ctx, agents.ready, export.Handler(registry))) }()
	}
	if err := agents.run(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
