package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/endpoint"
	"github.com/tangram-dev/tangram/internal/kube/access"
	"github.com/tangram-dev/tangram/internal/kube/autoscale"
	"github.com/tangram-dev/tangram/internal/kube/recovery"
	"github.com/tangram-dev/tangram/internal/logging"
	"github.com/tangram-dev/tangram/internal/version"
	"github.com/tangram-dev/tangram/internal/version/metric"
)

type options struct {
	kubeconfig string
	endpoint   endpoint.Options
	elect      bool
	timing     Timing
	// recovery: sick nodes and devices are reacted to, as recoveryConfig says.
	recovery       bool
	recoveryConfig string
	// autoscales: what the scheduler asks of autoscalers is carried out.
	autoscales  bool
	autoscaling autoscale.Settings
	webListen   string // the address of the web page; empty for none
}

// NewCommand is the gpu-controller command.
func NewCommand() *cobra.Command {
	o := options{timing: DefaultTiming()}
	cmd := &cobra.Command{
		Use:   "gpu-controller",
		Short: "Runs Volcano Jobs, keeps the status of PodGroups and Queues, and reacts to sick GPUs",
		Long: `gpu-controller turns batch.volcano.sh Jobs into pods, reacts to what happens to
them, and keeps the status of Jobs, PodGroups and Queues. The scheduler places the
pods. On a cluster without these kinds (config/crd/volcano) it waits for them.

It also keeps new pods off nodes and devices that are sick, moves the pods that they
hurt where it is told to, and puts them back into service (docs/guides/recovery.md).

Metrics are served with TLS, to those who may get the non-resource URL /metrics.

With --web-listen it serves the web page, whose questions the scheduler answers to the
visitor's own token (docs/guides/web.md).`,
		Args:         cobra.NoArgs,
		Version:      version.Get().String(),
		SilenceUsage: true,
	}
	f := cmd.Flags()
	logging.Run(cmd, o.run)
	o.timing.register(cmd)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the API server; empty inside a cluster")
	f.BoolVar(&o.elect, "leader-elect", true, "work only while holding the lease kube-system/gpu-controller, so that several may run")
	f.BoolVar(&o.recovery, "recovery", true, "react to sick nodes and devices")
	f.StringVar(&o.recoveryConfig, "recovery-config", "", "file that says how (docs/guides/recovery.md); without, devices and nodes are isolated and no pod is evicted")
	f.BoolVar(&o.autoscales, "autoscaling", false, "make placeholder pods for gangs that lack nodes of one domain, and mark nodes that are kept for gangs, as the scheduler says (docs/guides/autoscaling.md); without, both are removed")
	f.StringVar(&o.autoscaling.Namespace, "placeholder-namespace", names.PlaceholderNamespace, "namespace of placeholder pods; tenants should have no rights there")
	f.StringVar(&o.autoscaling.Image, "placeholder-image", "registry.k8s.io/pause:3.10", "image that placeholder pods name; it is never pulled")
	f.StringVar(&o.endpoint.Listen, "listen", "127.0.0.1:8889", "address of /healthz, /readyz and /metrics, all with TLS; empty for none")
	f.StringVar(&o.webListen, "web-listen", "", "address of the web page, with TLS (docs/guides/web.md); empty for none")
	f.StringVar(&o.endpoint.Cert, "tls-cert-file", "", "certificate to serve with; without, one is made at the start")
	f.StringVar(&o.endpoint.Key, "tls-private-key-file", "", "key of the certificate")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if err := cmp.Or(o.endpoint.Validate(), o.timing.validate(), o.validateWeb()); err != nil {
		return err
	}
	settings, err := o.settings()
	if err != nil {
		return err
	}
	if problems := validation.IsDNS1123Label(o.autoscaling.Namespace); len(problems) > 0 {
		return fmt.Errorf("--placeholder-namespace: %q: %s", o.autoscaling.Namespace, problems[0])
	}
	o.autoscaling.Owner = self(o.autoscaling.Namespace)
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 500, 1000 // a job of 1000 pods should not take minutes to create
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ready := &atomic.Bool{}
	c := Controller{Config: config, Elect: o.elect, Timing: o.timing, Ready: ready.Store, Recovery: settings, Metrics: recovery.NewMetrics(), Autoscales: o.autoscales, Autoscaling: o.autoscaling}
	c.Metrics.Registry().MustRegister(metric.BuildInfo("gpu-controller"))
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if o.endpoint.Listen != "" {
		metrics, err := access.Protect(client, c.Metrics.Handler())
		if err != nil {
			return err
		}
		o.endpoint.SelfSigned = true
		go func() { cancel(o.endpoint.Serve(ctx, ready.Load, metrics)) }()
	}
	if o.webListen != "" {
		go func() { cancel(o.serveWeb(ctx, client)) }()
	}
	if err := c.Run(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// self is this process's own pod, as the downward API tells (POD_NAME, POD_UID,
// POD_NAMESPACE), if it is in a namespace: what it owns goes with it. nil when it is not
// known.
func self(namespace string) *metav1.OwnerReference {
	name, uid := os.Getenv("POD_NAME"), os.Getenv("POD_UID")
	if name == "" || uid == "" || os.Getenv("POD_NAMESPACE") != namespace {
		return nil
	}
	return &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(uid)}
}

// settings are those of recovery; nil when it is off.
func (o *options) settings() (*recovery.Settings, error) {
	if !o.recovery {
		if o.recoveryConfig != "" {
			return nil, errors.New("--recovery-config: needs --recovery")
		}
		return nil, nil
	}
	settings := recovery.Defaults()
	if o.recoveryConfig != "" {
		file, err := os.ReadFile(o.recoveryConfig)
		if err != nil {
			return nil, fmt.Errorf("--recovery-config: %w", err)
		}
		if settings, err = recovery.Parse(file); err != nil {
			return nil, fmt.Errorf("--recovery-config: %s: %w", filepath.Base(o.recoveryConfig), err)
		}
	}
	return &settings, nil
}
