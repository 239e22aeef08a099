package tenants

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestExtenderCertificates: a stock kube-scheduler with a client certificate has gpu-extender
// place a pod, by weights of a file; a client without one gets 401, a tenant with a valid
// one 403, and neither can bind.
func TestExtenderCertificates(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	bin := cluster.Bin(t, "gpu-extender", "kube-scheduler")
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubeconfig, err := w.KubeconfigFor("system:tangram:gpu-scheduler")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	ca, cert, key := write("ca.crt", identity.CAData), write("client.crt", identity.CertData), write("client.key", identity.KeyData)
	ports := make([]int, 2)
	for i := range ports {
		if ports[i], err = local.FreePort(); err != nil {
			t.Fatal(err)
		}
	}
	ready, err := w.ReadyAt(ports[0], "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	weights := write("weights.yaml", []byte("weights: {fragmentation: 60, topology: 40}\ntenants: {namespaces: {kube-system: 90}}\n"))
	extender, err := w.Run(ctx, local.Program{
		Name: "gpu-extender", Path: filepath.Join(bin, "gpu-extender"), Ready: ready,
		Args: append(w.ListenArgs(ports[0]), "--kubeconfig="+kubeconfig, "--config="+weights, "--client-ca-file="+ca, "--client-allowed-names=system:tangram:gpu-scheduler"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = extender.Stop() })
	url := fmt.Sprintf("https://127.0.0.1:%d", ports[0])
	text := strings.Replace(string(config.Extender()), "http://127.0.0.1:8888", url+fmt.Sprintf("\n  enableHTTPS: true\n  tlsConfig: {caFile: %s, certFile: %s, keyFile: %s}", ca, cert, key), 1)
	text += "clientConnection: {kubeconfig: " + kubeconfig + "}\nleaderElection: {leaderElect: false}\n"
	serves, err := w.ReadyAt(ports[1], "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	stock, err := w.Run(ctx, local.Program{
		Name: "kube-scheduler", Path: filepath.Join(bin, "kube-scheduler"), Ready: serves,
		Args: append(w.ServeArgs(ports[1], kubeconfig), "--config="+write("scheduler.yaml", []byte(text))),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stock.Stop() })
	p := w.admitted(t, w.admin, "kube-system", pod("stock", 2, func(p *v1.Pod) {
		p.Spec.SchedulerName, p.Spec.NodeSelector = "default-scheduler", map[string]string{"kubernetes.io/hostname": "x-0"}
	}))
	eventually(t, "the pod is bound by the extender", func() (bool, string) {
		latest, seen := w.look(t, p)
		return latest.Spec.NodeName == "x-0" && latest.Annotations[names.AnnotationDevices] != "", seen
	})

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(identity.CAData)
	post := func(u *user) int {
		c := &tls.Config{RootCAs: roots}
		if u != nil {
			pair, err := tls.X509KeyPair(u.config.CertData, u.config.KeyData)
			if err != nil {
				t.Fatal(err)
			}
			c.Certificates = []tls.Certificate{pair}
		}
		transport := &http.Transport{TLSClientConfig: c}
		defer transport.CloseIdleConnections()
		res, err := (&http.Client{Transport: transport}).Post(url+"/bind", "application/json", strings.NewReader(`{"PodName":"x","PodNamespace":"team-a","Node":"n-0"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	if code := post(nil); code != http.StatusUnauthorized {
		t.Errorf("without a certificate: %d", code)
	}
	if code := post(w.as(t, "bob", "team-b")); code != http.StatusForbidden {
		t.Errorf("a tenant: %d", code)
	}
}
