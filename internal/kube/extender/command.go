package extender

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/kube/binding"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/watch"
	"github.com/tangram-dev/tangram/internal/version"
)

// options are the flags.
type options struct {
	kubeconfig, listen, cert, key string
}

// NewCommand is the gpu-extender command.
func NewCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "gpu-extender",
		Short: "Tangram's decisions for a kube-scheduler that cannot be replaced",
		Long: `gpu-extender answers a stock kube-scheduler's extender calls (filter, prioritize,
bind, preempt) with Tangram's own placement: devices, shares, MIG slices, reasons.
config/extender.yaml is the scheduler configuration that goes with it.`,
		Args:         cobra.NoArgs,
		Version:      version.Get().String(),
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return o.run(ctx)
		},
	}
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the API server; empty inside a cluster")
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:8888", "address to serve on")
	cmd.Flags().StringVar(&o.cert, "tls-cert-file", "", "certificate to serve with; without, plain HTTP, on loopback only")
	cmd.Flags().StringVar(&o.key, "tls-private-key-file", "", "key of the certificate")
	return cmd
}

// validate names the flag that is wrong. Every client that reaches the extender may
// bind pods, so plain HTTP is limited to loopback.
func (o *options) validate() error {
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if (o.cert == "") != (o.key == "") {
		return errors.New("--tls-cert-file and --tls-private-key-file: both or none")
	}
	if ip := net.ParseIP(host); o.cert == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--listen: %s is not on loopback, which needs --tls-cert-file", o.listen)
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
	config.QPS, config.Burst = 1000, 2000 // one binding per pod; the default of 5 would be the limit
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	sources, err := watch.APISources(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	complain := func(c report.Complaint) {
		klog.FromContext(ctx).Info("Invalid object", "kind", c.About.Kind, "object", klog.KRef(c.About.Namespace, c.About.Name), "reason", c.Reason, "problem", c.Message)
	}
	e, err := kubeengine.New(ctx, factory, sources, complain)
	if err != nil {
		return err
	}
	s := &Server{Engine: e, Pods: factory.Core().V1().Pods().Lister(), Writer: binding.Writer{Client: client}, Weights: score.DefaultWeights()}
	factory.Start(ctx.Done())
	if !e.WaitForSync(ctx) {
		return ctx.Err()
	}
	go e.Follow(ctx)
	return o.serve(ctx, s.Handler())
}

// serve answers until the context ends. It starts listening only once the ledger is
// complete: a scheduler that cannot reach the extender waits, one that gets an answer
// from half a ledger double-books.
func (o *options) serve(ctx context.Context, h http.Handler) error {
	server := &http.Server{Addr: o.listen, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() {
		klog.FromContext(ctx).Info("Serving", "address", o.listen)
		if o.cert != "" {
			failed <- server.ListenAndServeTLS(o.cert, o.key)
		} else {
			failed <- server.ListenAndServe()
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return server.Shutdown(end)
	}
}
