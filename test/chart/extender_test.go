package chart

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/test/cluster"
)

// extenderTLS makes the Secret that extender.tlsSecret names, as an administrator would,
// and returns the flags of helm that use it.
func (w *world) extenderTLS() []string {
	w.t.Helper()
	ctx := w.t.Context()
	data := map[string][]byte{"ca.crt": w.RESTConfig().CAData}
	for _, flag := range w.ListenArgs(0) {
		for key, prefix := range map[string]string{"tls.crt": "--tls-cert-file=", "tls.key": "--tls-private-key-file="} {
			if file, ok := strings.CutPrefix(flag, prefix); ok {
				text, err := os.ReadFile(file)
				if err != nil {
					w.t.Fatal(err)
				}
				data[key] = text
			}
		}
	}
	if _, err := w.Client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "extender-tls"}, Type: v1.SecretTypeTLS, Data: data}
	if _, err := w.Client.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	return []string{"--set", "extender.enabled=true,extender.tlsSecret=extender-tls"}
}

// throughExtender has a stock kube-scheduler, with a client certificate under the name that
// the chart allows, place a GPU pod through the chart's extender; without a certificate the
// extender answers nobody.
func (w *world) throughExtender() {
	t := w.t
	t.Helper()
	ctx := t.Context()
	pods, err := w.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=gpu-extender"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("pods of the extender: %v, error %v", len(pods.Items), err)
	}
	url := fmt.Sprintf("https://%s:8888", pods.Items[0].Status.PodIP)
	anonymous := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer anonymous.CloseIdleConnections()
	res, err := anonymous.Post(url+"/filter", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("the extender without a certificate: %s", res.Status)
	}

	identity, err := w.As("system:kube-scheduler")
	if err != nil {
		t.Fatal(err)
	}
	files, err := cluster.CertificateFiles(t.TempDir(), identity)
	if err != nil {
		t.Fatal(err)
	}
	// The certificate is for the loopback address, not for the pod's.
	asks := url + "\n  enableHTTPS: true\n  tlsConfig: {serverName: 127.0.0.1, " + files + "}"
	text := strings.Replace(string(config.Extender()), "http://127.0.0.1:8888", asks, 1) + "profiles: [{schedulerName: extended-scheduler}]\n"
	stock, err := w.StockScheduler(ctx, "extended-scheduler", "system:kube-scheduler", text)
	if err != nil {
		t.Fatal(err)
	}
	defer stock.Stop()
	w.Create(t, cluster.Pod("default", "extended", 1, func(p *v1.Pod) { p.Spec.SchedulerName = "extended-scheduler" }))
	w.pod("extended", "is bound by the extender", func(p *v1.Pod) bool { return isBound(p) && p.Annotations[names.AnnotationDevices] != "" })
	if err := w.Client.CoreV1().Pods("default").Delete(ctx, "extended", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the pod is gone", 30*time.Second, func() (bool, string) {
		_, err := w.Client.CoreV1().Pods("default").Get(ctx, "extended", metav1.GetOptions{})
		return err != nil, "it is there"
	})
}
