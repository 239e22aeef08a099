package extender

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/internal/kube/binding"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/scoring"
	"github.com/tangram-dev/tangram/internal/kube/watch"
	"github.com/tangram-dev/tangram/internal/logging"
	"github.com/tangram-dev/tangram/internal/version"
)

type options struct {
	kubeconfig, listen, config string
	access                     access
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
	}
	logging.Run(cmd, o.run)
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the API server; empty inside a cluster")
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:8888", "address to serve on")
	cmd.Flags().StringVar(&o.config, "config", "", "file with weights, placements, tenants and telemetryMaxAge, as in the arguments of GPUScore; empty for the defaults")
	cmd.Flags().StringVar(&o.access.cert, "tls-cert-file", "", "certificate to serve with; without, plain HTTP, on loopback only")
	cmd.Flags().StringVar(&o.access.key, "tls-private-key-file", "", "key of the certificate")
	cmd.Flags().StringVar(&o.access.clientCA, "client-ca-file", "", "authorities of client certificates; required away from loopback. Without a valid certificate a client gets 401")
	cmd.Flags().StringSliceVar(&o.access.names, "client-allowed-names", nil, "common names or DNS names of clients that may ask, comma-separated; empty: all with a valid certificate. Others get 403")
	return cmd
}

// validate names the flag that is wrong. Every client that reaches the extender may
// bind pods, so away from loopback clients need certificates.
func (o *options) validate() error {
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	a := &o.access
	if (a.cert == "") != (a.key == "") {
		return errors.New("--tls-cert-file and --tls-private-key-file: both or none")
	}
	if a.clientCA != "" && a.cert == "" {
		return errors.New("--client-ca-file: needs --tls-cert-file: without TLS there are no client certificates")
	}
	if len(a.names) > 0 && a.clientCA == "" {
		return errors.New("--client-allowed-names: needs --client-ca-file")
	}
	if slices.Contains(a.names, "") {
		return errors.New("--client-allowed-names: an empty name")
	}
	if ip := net.ParseIP(host); a.clientCA == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--listen: %s is not on loopback, which needs --tls-cert-file and --client-ca-file", o.listen)
	}
	return nil
}

func (o *options) settings() (scoring.Settings, error) {
	var args scoring.Args
	if o.config != "" {
		data, err := os.ReadFile(o.config)
		if err == nil {
			err = yaml.UnmarshalStrict(data, &args)
		}
		if err != nil {
			return scoring.Settings{}, fmt.Errorf("--config: %w", err)
		}
	}
	s, err := args.Settings()
	if err != nil {
		return s, fmt.Errorf("--config: %w", err)
	}
	return s, nil
}

func (o *options) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	settings, err := o.settings()
	if err != nil {
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
	e, err := kubeengine.New(kubeengine.Config{Factory: factory, Sources: sources, Claims: servesClaims(client), Reporter: complain, Logger: klog.FromContext(ctx)})
	if err != nil {
		return err
	}
	e.Run(ctx)
	s := &Server{Engine: e, Pods: factory.Core().V1().Pods().Lister(), Writer: binding.Writer{Client: client}, Profile: settings.Profile(nil)}
	if settings.TelemetryMaxAge > 0 {
		e.Configure(func(set *kubeengine.Settings) { set.TelemetryMaxAge = settings.TelemetryMaxAge })
	}
	factory.Start(ctx.Done())
	if !e.WaitForSync(ctx) {
		return ctx.Err()
	}
	go e.Follow(ctx)
	return o.serve(ctx, s.Handler(&o.access))
}

// servesClaims says whether the API server has ResourceClaims. Their GPUs are counted as held
// whichever driver allocated them.
func servesClaims(client kubernetes.Interface) bool {
	_, err := client.Discovery().ServerResourcesForGroupVersion("resource.k8s.io/v1")
	return err == nil
}

// serve answers until the context ends. It starts listening only once the ledger is
// complete: a scheduler that cannot reach the extender waits, one that gets an answer
// from half a ledger double-books.
func (o *options) serve(ctx context.Context, h http.Handler) error {
	server := &http.Server{Addr: o.listen, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	if o.access.cert != "" {
		var err error
		if server.TLSConfig, err = o.access.config(); err != nil {
			return err
		}
	}
	failed := make(chan error, 1)
	go func() {
		klog.FromContext(ctx).Info("Serving", "address", o.listen)
		if o.access.cert != "" {
			failed <- server.ListenAndServeTLS("", "")
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
