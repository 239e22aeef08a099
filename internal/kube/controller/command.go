package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
)

// options are the flags.
type options struct {
	kubeconfig, listen, cert, key string
	elect                         bool
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
	f.StringVar(&o.listen, "listen", "127.0.0.1:8889", "address of /healthz and /readyz; empty for none")
	f.StringVar(&o.cert, "tls-cert-file", "", "certificate to serve with; without, plain HTTP")
	f.StringVar(&o.key, "tls-private-key-file", "", "key of the certificate")
	return cmd
}

// validate names the flag that is wrong.
func (o *options) validate() error {
	if o.listen != "" {
		if _, _, err := net.SplitHostPort(o.listen); err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
	}
	if (o.cert == "") != (o.key == "") {
		return errors.New("--tls-cert-file and --tls-private-key-file: both or none")
	}
	return nil
}

func (o *options) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
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
	if o.listen != "" {
		go func() { cancel(o.serve(ctx, ready)) }()
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

// serve answers whether the controller lives and works.
func (o *options) serve(ctx context.Context, ready *atomic.Bool) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Addr: o.listen, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	var err error
	if o.cert != "" {
		err = server.ListenAndServeTLS(o.cert, o.key)
	} else {
		err = server.ListenAndServe()
	}
	if errors.Is(err, http.ErrServerClosed) {
		return context.Canceled
	}
	return fmt.Errorf("--listen: %w", err)
}
