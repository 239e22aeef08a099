package chart

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/test/cluster"
)

// extenderTLS makes the Secret that extender.tlsSecret names, as an administrator would,
// and returns the flags of helm that use it.
func (w *world) extenderTLS() []string {
	w.T.Helper()
	data := map[string][]byte{"ca.crt": w.RESTConfig().CAData}
	for _, flag := range w.ListenArgs(0) {
		for key, prefix := range map[string]string{"tls.crt": "--tls-cert-file=", "tls.key": "--tls-private-key-file="} {
			if file, ok := strings.CutPrefix(flag, prefix); ok {
				text, err := os.ReadFile(file)
				w.Must(err)
				data[key] = text
			}
		}
	}
	w.AddNamespace(namespace)
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "extender-tls"}, Type: v1.SecretTypeTLS, Data: data}
	_, err := w.Client.CoreV1().Secrets(namespace).Create(w.T.Context(), secret, metav1.CreateOptions{})
	w.Must(err)
	return []string{"--set", "extender.enabled=true,extender.tlsSecret=extender-tls"}
}

// throughExtender has a stock kube-scheduler, with a client certificate under the name that
// the chart allows, place a GPU pod through the chart's extender; without a certificate the
// extender refuses.
func (w *world) throughExtender() {
	t := w.T
	t.Helper()
	ctx := t.Context()
	pods := w.podsOf("gpu-extender")
	if len(pods) != 1 {
		t.Fatalf("%d pods of the extender", len(pods))
	}
	url := fmt.Sprintf("https://%s:8888", pods[0].Status.PodIP)
	anonymous := cluster.Asker{Client: cluster.HTTPClient(nil, ""), Base: url}
	defer anonymous.Client.CloseIdleConnections()
	if a := anonymous.Do(t, http.MethodPost, "/filter", strings.NewReader("{}")); a.Status != http.StatusUnauthorized {
		t.Errorf("the extender without a certificate: %d", a.Status)
	}

	identity, err := w.As("system:kube-scheduler")
	w.Must(err)
	files, err := cluster.CertificateFiles(t.TempDir(), identity)
	w.Must(err)
	// The certificate is for the loopback address, not for the pod's.
	asks := url + "\n  enableHTTPS: true\n  tlsConfig: {serverName: 127.0.0.1, " + files + "}"
	text := strings.Replace(string(config.Extender()), "http://127.0.0.1:8888", asks, 1) + "profiles: [{schedulerName: extended-scheduler}]\n"
	stock, err := w.StockScheduler(ctx, "extended-scheduler", "system:kube-scheduler", text)
	w.Must(err)
	defer stock.Stop()
	w.Create(cluster.Pod("extended", 1, func(p *v1.Pod) { p.Spec.SchedulerName = "extended-scheduler" }))
	w.pod("extended", "is bound by the extender", func(p *v1.Pod) bool { return isBound(p) && p.Annotations[names.AnnotationDevices] != "" })
	w.Delete("extended")
	w.Eventually("the pod is gone", func() (bool, string) { return w.Find("extended") == nil, "it is there" })
}
