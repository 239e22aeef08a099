package local

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The programs of the control plane, as their files are called.
const (
	etcdProgram              = "etcd"
	apiServerProgram         = "kube-apiserver"
	controllerManagerProgram = "kube-controller-manager"
	kubeSchedulerProgram     = "kube-scheduler"
	kwokProgram              = "kwok"
)

func neededPrograms(o Options) []string {
	names := []string{etcdProgram, apiServerProgram}
	if o.ControllerManager {
		names = append(names, controllerManagerProgram)
	}
	if o.KubeScheduler {
		names = append(names, kubeSchedulerProgram)
	}
	if o.KWOK {
		names = append(names, kwokProgram)
	}
	return names
}

// startComponents runs the control plane, each part after those it needs.
func (c *Cluster) startComponents(ctx context.Context, o Options) error {
	now := time.Now()
	store, err := c.startEtcd(ctx, now)
	if err != nil {
		return err
	}
	if err := c.startAPIServer(ctx, o, store); err != nil {
		return err
	}
	if o.KWOK { // before the controller manager, which takes longest to start
		if err := c.startKWOK(ctx); err != nil {
			return err
		}
	}
	if o.KubeScheduler {
		if err := c.startKubeScheduler(ctx); err != nil {
			return err
		}
	}
	if o.ControllerManager {
		return c.startControllerManager(ctx)
	}
	return nil
}

// etcdAccess is what a client of etcd needs.
type etcdAccess struct {
	url, ca, cert, key string
}

func (c *Cluster) startEtcd(ctx context.Context, now time.Time) (etcdAccess, error) {
	pki := filepath.Join(c.dir, "pki")
	ca, err := openAuthority(pki, "etcd-ca", now)
	if err != nil {
		return etcdAccess{}, err
	}
	serverCert, serverKey, err := ca.issueFiles("etcd", identity{user: "etcd", server: true, client: true}, now)
	if err != nil {
		return etcdAccess{}, err
	}
	client := identity{user: apiServerProgram, client: true}
	access := etcdAccess{ca: ca.certPath()}
	if access.cert, access.key, err = ca.issueFiles("etcd-client", client, now); err != nil {
		return etcdAccess{}, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return etcdAccess{}, err
	}
	access.url = httpsURL(ports[0])
	health, peer := httpsURL(ports[1]), httpsURL(ports[2])
	probeIdentity, err := ca.issue(client, now)
	if err != nil {
		return etcdAccess{}, err
	}
	ready, err := httpProbe(health+"/health", ca.cert, &probeIdentity)
	if err != nil {
		return etcdAccess{}, err
	}
	_, err = c.Run(ctx, Program{
		Name: etcdProgram, Path: filepath.Join(c.bin, etcdProgram), Restart: true, Ready: ready,
		Args: []string{
			"--name=local", "--data-dir=" + filepath.Join(c.dir, "etcd"),
			// A throw-away cluster: better fast than safe from a power cut.
			"--unsafe-no-fsync",
			"--quota-backend-bytes=" + strconv.Itoa(8<<30),
			"--auto-compaction-mode=periodic", "--auto-compaction-retention=5m",
			"--snapshot-count=100000",
			"--listen-client-urls=" + access.url, "--advertise-client-urls=" + access.url,
			// Its own port: sharing one with gRPC puts gRPC behind Go's HTTP server,
			// which starves watches.
			"--listen-client-http-urls=" + health,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=local=" + peer,
			"--trusted-ca-file=" + ca.certPath(), "--client-cert-auth",
			"--cert-file=" + serverCert, "--key-file=" + serverKey,
			"--peer-trusted-ca-file=" + ca.certPath(), "--peer-client-cert-auth",
			"--peer-cert-file=" + serverCert, "--peer-key-file=" + serverKey,
			"--log-level=warn",
		},
	})
	return access, err
}

func (c *Cluster) startAPIServer(ctx context.Context, o Options, store etcdAccess) error {
	pki, now := filepath.Join(c.dir, "pki"), time.Now()
	var err error
	if c.authority, err = openAuthority(pki, "ca", now); err != nil {
		return err
	}
	serverCert, serverKey, err := c.authority.issueFiles("server", identity{user: "tangram-local", server: true}, now)
	if err != nil {
		return err
	}
	// Components log errors until the API server publishes the CA of its front proxies;
	// there are none here.
	frontProxy, err := openAuthority(pki, "front-proxy-ca", now)
	if err != nil {
		return err
	}
	signingKey, err := openSigningKey(pki)
	if err != nil {
		return err
	}
	port, err := FreePort()
	if err != nil {
		return err
	}
	c.server = httpsURL(port)
	if err := c.useAdmin(now); err != nil {
		return err
	}
	admin := keyPair{cert: c.admin.CertData, key: c.admin.KeyData}
	ready, err := httpProbe(c.server+"/readyz", c.authority.cert, &admin)
	if err != nil {
		return err
	}
	args := []string{
		"--bind-address=" + loopback, "--secure-port=" + strconv.Itoa(port), "--advertise-address=" + loopback,
		// The kubernetes Service would get a loopback endpoint, which is not valid.
		"--endpoint-reconciler-type=none",
		"--etcd-servers=" + store.url, "--etcd-cafile=" + store.ca,
		"--etcd-certfile=" + store.cert, "--etcd-keyfile=" + store.key,
		"--tls-cert-file=" + serverCert, "--tls-private-key-file=" + serverKey,
		"--client-ca-file=" + c.authority.certPath(),
		"--requestheader-client-ca-file=" + frontProxy.certPath(), "--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + signingKey, "--service-account-signing-key-file=" + signingKey,
		"--service-cluster-ip-range=10.96.0.0/16",
		"--allow-privileged", "--profiling=false",
		// Priority and fairness would give two schedulers under test different
		// shares for their names' sake; plain limits treat all alike.
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=4000", "--max-mutating-requests-inflight=2000",
	}
	if !o.ControllerManager {
		// Both wait for a controller: one for the default service account, one for
		// the removal of the not-ready taint it adds to new nodes.
		args = append(args, "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
	}
	_, err = c.Run(ctx, Program{
		Name: apiServerProgram, Path: filepath.Join(c.bin, apiServerProgram), Restart: true, Ready: ready, Args: append(args, o.APIServer...),
	})
	return err
}

func (c *Cluster) startControllerManager(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	_, err = c.Launch(ctx, Component{
		Name: controllerManagerProgram, user: "system:kube-controller-manager", Restart: true,
		// Pods are refused until their namespace has its service account, so that is
		// when the controller manager is of use.
		works: func(ctx context.Context) error {
			_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
			return err
		},
		Flags: []string{
			"--root-ca-file=" + c.authority.certPath(),
			"--cluster-signing-cert-file=" + c.authority.certPath(),
			"--cluster-signing-key-file=" + c.authority.keyPath(),
			"--service-account-private-key-file=" + filepath.Join(c.dir, "pki", "service-accounts.key"),
			"--use-service-account-credentials", "--leader-elect=false", "--profiling=false",
			"--kube-api-qps=1000", "--kube-api-burst=2000",
		},
	})
	return err
}

func (c *Cluster) startKubeScheduler(ctx context.Context) error {
	_, err := c.Launch(ctx, Component{
		Name: kubeSchedulerProgram, user: "system:kube-scheduler", Restart: true, Ready: "/readyz",
		Flags: []string{"--leader-elect=false", "--profiling=false"},
	})
	return err
}

// ServeArgs are the flags with which a Kubernetes component serves on a loopback
// port under the cluster's authority, and talks to the API server.
func (c *Cluster) ServeArgs(port int, kubeconfig string) []string {
	pki := filepath.Join(c.dir, "pki")
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=" + loopback, "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + filepath.Join(pki, "server.crt"),
		"--tls-private-key-file=" + filepath.Join(pki, "server.key"),
	}
}

// QueryArg is the flag with which gpu-scheduler answers questions on a loopback port.
func QueryArg(port int) string {
	return "--query-listen=" + net.JoinHostPort(loopback, strconv.Itoa(port))
}

// ListenArgs are the flags with which a program of ours serves on a loopback port
// under the cluster's authority.
func (c *Cluster) ListenArgs(port int) []string {
	pki := filepath.Join(c.dir, "pki")
	return []string{
		"--listen=" + net.JoinHostPort(loopback, strconv.Itoa(port)),
		"--tls-cert-file=" + filepath.Join(pki, "server.crt"),
		"--tls-private-key-file=" + filepath.Join(pki, "server.key"),
	}
}

// ReadyAt returns a Program's Ready for a server with the flags of ServeArgs: it
// answers nil once the path gives 200.
func (c *Cluster) ReadyAt(port int, path string) (func(context.Context) error, error) {
	return httpProbe(httpsURL(port)+path, c.authority.cert, nil)
}

func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		var err error
		if ports[i], err = FreePort(); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

func httpsURL(port int) string {
	return fmt.Sprintf("https://%s", net.JoinHostPort(loopback, strconv.Itoa(port)))
}
