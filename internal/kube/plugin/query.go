package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
	schedulerserverconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/kube/access"
	"github.com/tangram-dev/tangram/internal/kube/query"
	"github.com/tangram-dev/tangram/internal/replica"
	"github.com/tangram-dev/tangram/internal/version"
)

// questions are the flags of the port where questions are answered.
type questions struct {
	listen, advertise string
	chosen            func() bool // the address was given, and must work
}

// defaultQueryListen is the port where questions are answered, next to kube-scheduler's.
const defaultQueryListen = ":10264"

func (q *questions) addFlags(sets *cliflag.NamedFlagSets) {
	f := sets.FlagSet("questions")
	f.StringVar(&q.listen, "query-listen", defaultQueryListen, "Address of the HTTPS port where questions about the scheduler's state are answered (tangram why, the web page); empty for none. The certificate is that of --tls-cert-file, or one is made at the start.")
	f.StringVar(&q.advertise, "query-advertise", "", "Host, or host:port, that the leader's Lease gives for --query-listen; empty: $POD_IP, or an address of this host.")
	q.chosen = func() bool { return f.Changed("query-listen") }
}

func (q *questions) validate() error {
	if q.listen == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(q.listen); err != nil {
		return fmt.Errorf("--query-listen: %w", err)
	}
	return nil
}

// Rates of what questions ask of the API server: they have a client of their own, so that
// they do not use up the scheduler's.
const (
	queryQPS   = 500
	queryBurst = 1000
)

// answerQuestions serves the query port until the context ends. It does not block. An
// address that was given must be free; one that was not is tried until it is.
func (s *Shared) answerQuestions(ctx context.Context, q *questions, opts *options.Options, cc *schedulerserverconfig.CompletedConfig) error {
	if q.listen == "" || s.Engine() == nil {
		return nil
	}
	settings := rest.CopyConfig(cc.KubeConfig)
	settings.QPS, settings.Burst, settings.RateLimiter = queryQPS, queryBurst, nil
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(settings, "query"))
	if err != nil {
		return err
	}
	guard, err := access.New(access.Options{Client: client, Certificates: true})
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // only for people where there is no election
	holder := host
	if cc.LeaderElection != nil {
		holder = cc.LeaderElection.Lock.Identity()
	}
	leads := func() bool { return s.Engine().Gate().Leads() && s.fence.check() == nil }
	find := func(ctx context.Context, namespace, name string) *v1.Pod {
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil { // there is none, or it cannot be told now
			return nil
		}
		return pod
	}
	copies := replica.NewService(s.Engine(), version.Get().Version)
	s.answers.Foresee(copies.Start)
	server := query.New(query.Options{Source: s.answers, Copies: copies, Access: guard, FindPod: find, Leads: leads, Holder: holder, Version: version.Get().Version})
	port := &query.Port{Listen: q.listen, Advertise: cmp.Or(q.advertise, os.Getenv("POD_IP")), Pod: podName()}
	if pair := opts.SecureServing; pair != nil {
		port.Cert, port.Key = pair.ServerCert.CertKey.CertFile, pair.ServerCert.CertKey.KeyFile
	}
	if err := port.Open(); err != nil && q.chosen() {
		return err
	} else if err != nil {
		klog.FromContext(ctx).Error(err, "Questions are not answered until the port is free; --query-listen sets another")
	}
	lease := cc.ComponentConfig.LeaderElection
	announcer := &query.Announcer{
		Client: client, Namespace: cmp.Or(lease.ResourceNamespace, "kube-system"), Name: cmp.Or(lease.ResourceName, "gpu-scheduler"), Elected: cc.LeaderElection != nil,
		Leads: leads, Endpoint: func() apiquery.Endpoint { return port.Endpoint(holder) },
	}
	go guard.Run(ctx)
	go s.answers.KeepHistory(ctx)
	go func() {
		for !port.Opened() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Second):
				_ = port.Open() // said before
			}
		}
		go announcer.Run(ctx)
		if err := port.Serve(ctx, server.Handler()); err != nil && !errors.Is(err, context.Canceled) {
			klog.FromContext(ctx).Error(err, "Questions are not answered any more")
		}
	}()
	return nil
}

// podName is this process' namespace/name, where the pod says it.
func podName() string {
	namespace, name := os.Getenv("POD_NAMESPACE"), os.Getenv("POD_NAME")
	if namespace == "" || name == "" {
		return ""
	}
	return namespace + "/" + name
}
