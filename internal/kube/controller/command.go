package controller

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tangram-dev/tangram/internal/endpoint"
	"github.com/tangram-dev/tangram/internal/version"
)

// options are the flags.
type options struct {
	kubeconfig string
	endpoint   endpoint.Options
	elect      bool
}

// NewCommand is the gpu-controller command.
func NewCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "gpu-controller",
		Short: "Runs Volcano Jobs and keeps the status of PodGroups and Queues",
		Long: `gpu-controller turns batch.volcano.sh Jobs into pods, reacts to what happens to
them, and keeps the status of Jobs, PodGroups and Queues. The scheduler places the
pods. On a cluster without these kinds (config/crd/volcano) it waits for them.`,
		Args:         cobra.NoArgs,
		Version:      version.Get().String(),
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return o.run(ctx)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the API server; empty inside a cluster")
	f.BoolVar(&o.elect, "leader-elect", true, "work only while holding the lease kube-system/gpu-controller, so that several may run")
	f.StringVar(&o.endpoint.Listen, "listen", "127.0.0.1:8889", "address of /healthz and /readyz; empty for none")
	f.StringVar(&o.endpoint.Cert, "tls-cert-file", "", "certificate to serve with; without, plain HTTP")
	f.StringVar(&o.endpoint.Key, "tls-private-key-file", "", "key of the certificate")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if err := o.endpoint.Validate(); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 500, 1000 // a job of 1000 pods should not take minutes to create
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ready := &atomic.Bool{}
	if o.endpoint.Listen != "" {
		go func() { cancel(o.endpoint.Serve(ctx, ready.Load, nil)) }()
	}
	c := Controller{Config: config, Elect: o.elect, Ready: ready.Store}
	if err := c.Run(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
