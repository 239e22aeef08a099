package ask

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tangram-dev/tangram/api/names"
)

// LocalKubeconfig is where `tangram up` keeps the kubeconfig of the local cluster,
// relative to the folder it was started in. It is used when there is no other kubeconfig.
const LocalKubeconfig = ".tangram/kubeconfig"

// DefaultLease is the scheduler's Lease, as config/scheduler.yaml and the chart name it.
const DefaultLease = "kube-system/" + names.SchedulerName

// DefaultTimeout bounds one question, with all retries.
const DefaultTimeout = 30 * time.Second

// Options say which cluster is asked, and as which user. The zero value is what kubectl would
// use; the fields are kubectl's flags of the same names where it has them.
type Options struct {
	Kubeconfig string
	Context    string
	Cluster    string
	User       string
	Namespace  string
	// Server is the URL of the API server, Token a bearer token that replaces all credentials
	// of the kubeconfig (kubectl would still show its certificate), CAFile the API server's
	// certificate authority, Insecure accepts any certificate of it.
	Server   string
	Token    string
	CAFile   string
	Insecure bool
	// Scheduler is the URL of the scheduler's query port, for a network in which the address
	// in the Lease is not the one to use: behind a load balancer, or forwarded by hand. The
	// certificate is still the Lease's, unless SchedulerCA names a file with another.
	Scheduler   string
	SchedulerCA string
	// Lease is namespace/name of the scheduler's Lease; empty: DefaultLease.
	Lease string
	// Timeout bounds one question; 0: DefaultTimeout.
	Timeout time.Duration
}

// AddFlags adds the flags that set o to a command, with kubectl's names.
func (o *Options) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "path of the kubeconfig (default: $KUBECONFIG, ~/.kube/config, or the local cluster's "+LocalKubeconfig+")")
	f.StringVar(&o.Context, "context", "", "context of the kubeconfig to use")
	f.StringVar(&o.Cluster, "cluster", "", "cluster of the kubeconfig to use")
	f.StringVar(&o.User, "user", "", "user of the kubeconfig to use")
	f.StringVarP(&o.Namespace, "namespace", "n", "", "namespace (default: the context's)")
	f.StringVarP(&o.Server, "server", "s", "", "URL of the API server")
	f.StringVar(&o.Token, "token", "", "bearer token, instead of the kubeconfig's credentials")
	f.StringVar(&o.CAFile, "certificate-authority", "", "file with the API server's certificate authority")
	f.BoolVar(&o.Insecure, "insecure-skip-tls-verify", false, "accept any certificate of the API server; the connection can be read by others")
	f.StringVar(&o.Scheduler, "scheduler", "", "URL of the scheduler's query port (default: as its Lease says)")
	f.StringVar(&o.SchedulerCA, "scheduler-ca", "", "file with the certificate authority of --scheduler (default: as the Lease says)")
	f.StringVar(&o.Lease, "lease", DefaultLease, "NAMESPACE/NAME of the scheduler's Lease")
	f.DurationVar(&o.Timeout, "request-timeout", DefaultTimeout, "how long one question may take")
}

// clientConfig is the kubeconfig with the overrides of o.
func (o *Options) clientConfig() (clientcmd.ClientConfig, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	overrides.Context.Cluster, overrides.Context.AuthInfo, overrides.Context.Namespace = o.Cluster, o.User, o.Namespace
	overrides.ClusterInfo.Server, overrides.ClusterInfo.CertificateAuthority = o.Server, o.CAFile
	overrides.ClusterInfo.InsecureSkipTLSVerify = o.Insecure
	overrides.AuthInfo.Token = o.Token
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	if o.Kubeconfig == "" && !slices.ContainsFunc(rules.Precedence, exists) && o.Server == "" {
		if exists(LocalKubeconfig) {
			if err := checkLocal(LocalKubeconfig); err != nil {
				return nil, fmt.Errorf("%s: %w; name it with --kubeconfig if you trust it", LocalKubeconfig, err)
			}
			rules.ExplicitPath = LocalKubeconfig
		}
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkLocal refuses a kubeconfig that was found in the working directory and is not like
// one of `tangram up`: a folder from elsewhere must not be able to run a program
// (credential plugins) or receive requests just because a command was run in it.
func checkLocal(path string) error {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return err
	}
	for _, c := range config.Clusters {
		u, err := url.Parse(c.Server)
		if err != nil {
			return err
		}
		if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("its server %s is not on this machine", u.Host)
		}
	}
	for _, a := range config.AuthInfos {
		if a.Exec != nil || a.AuthProvider != nil || a.TokenFile != "" || a.ClientCertificate != "" || a.ClientKey != "" {
			return errors.New("it has credentials other than a client certificate")
		}
	}
	return nil
}

// RESTConfig is the configuration of a client of the API server.
func (o *Options) RESTConfig() (*rest.Config, error) {
	loader, err := o.clientConfig()
	if err != nil {
		return nil, err
	}
	config, err := loader.ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) {
			return nil, &UsageError{"there is no kubeconfig: set --kubeconfig or KUBECONFIG, or start a local cluster with tangram up"}
		}
		return nil, &UsageError{fmt.Sprintf("kubeconfig: %v", err)}
	}
	if config.Impersonate.UserName != "" {
		return nil, errors.New("kubeconfig: the scheduler does not know impersonation (act-as): use the user's own credentials")
	}
	if o.Token != "" {
		// The token alone, also beside a kubeconfig with a certificate, which would win: who
		// tries out another's rights must not be answered with their own.
		config.CertFile, config.KeyFile, config.CertData, config.KeyData = "", "", nil, nil
		config.Username, config.Password, config.ExecProvider, config.AuthProvider, config.BearerTokenFile = "", "", nil, nil, ""
	}
	config.UserAgent = "tangram"
	config.QPS = -1 // a handful of requests: no limit of its own
	return config, nil
}

// DefaultNamespace is the one that an object without a namespace is looked for in.
func (o *Options) DefaultNamespace() (string, error) {
	loader, err := o.clientConfig()
	if err != nil {
		return "", err
	}
	ns, _, err := loader.Namespace()
	return ns, err
}

// lease splits o.Lease.
func (o *Options) lease() (namespace, name string, err error) {
	text := cmp.Or(o.Lease, DefaultLease)
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", &UsageError{fmt.Sprintf("--lease: %q, want NAMESPACE/NAME", text)}
	}
	return namespace, name, nil
}

func (o *Options) timeout() time.Duration {
	if o.Timeout > 0 {
		return o.Timeout
	}
	return DefaultTimeout
}

// Contexts are the names of the kubeconfig's contexts, sorted; nil when it cannot be read.
func (o *Options) Contexts() []string {
	loader, err := o.clientConfig()
	if err != nil {
		return nil
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(raw.Contexts))
}
