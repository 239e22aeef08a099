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

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

const schedulerUser = "system:tangram:gpu-scheduler"

// TestExtenderCertificates: a stock kube-scheduler with a client certificate has gpu-extender
// place a pod, by weights of a file; a client without one gets 401, a tenant with a valid
// one 403, and neither can bind.
func TestExtenderCertificates(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	bin := cluster.Bin(t, "gpu-extender", "kube-scheduler")
	dir := t.TempDir()
	identity, err := w.As(schedulerUser)
	if err != nil {
		t.Fatal(err)
	}
	files, err := cluster.CertificateFiles(dir, identity)
	if err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(dir, "weights.yaml")
	if err := os.WriteFile(weights, []byte("weights: {fragmentation: 60, topology: 40}\ntenants: {namespaces: {kube-system: 90}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := w.KubeconfigFor(schedulerUser)
	if err != nil {
		t.Fatal(err)
	}
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	ready, err := w.ReadyAt(port, "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	extender, err := w.Run(ctx, local.Program{
		Name: "gpu-extender", Path: filepath.Join(bin, "gpu-extender"), Ready: ready,
		Args: append(w.ListenArgs(port), "--kubeconfig="+kubeconfig, "--config="+weights, "--client-ca-file="+filepath.Join(dir, "ca.crt"), "--client-allowed-names="+schedulerUser),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = extender.Stop() })
	url := fmt.Sprintf("https://127.0.0.1:%d", port)
	text := strings.Replace(string(config.Extender()), "http://127.0.0.1:8888", url+"\n  enableHTTPS: true\n  tlsConfig: {"+files+"}", 1)
	stock, err := w.StockScheduler(ctx, "kube-scheduler", schedulerUser, text)
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
