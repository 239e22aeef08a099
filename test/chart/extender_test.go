package chart

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
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
	if _, err := w.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "extender-tls"}, Type: v1.SecretTypeTLS, Data: data}
	if _, err := w.client.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
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
	pods, err := w.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=gpu-extender"})
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

	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubeconfig, err := w.KubeconfigFor("system:kube-scheduler")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	// The certificate is for the loopback address, not for the pod's.
	asks := fmt.Sprintf("%s\n  enableHTTPS: true\n  tlsConfig: {serverName: 127.0.0.1, caFile: %s, certFile: %s, keyFile: %s}", url,
		write("ca.crt", identity.CAData), write("client.crt", identity.CertData), write("client.key", identity.KeyData))
	text := strings.Replace(string(config.Extender()), "http://127.0.0.1:8888", asks, 1)
	text += "clientConnection: {kubeconfig: " + kubeconfig + "}\nleaderElection: {leaderElect: false}\nprofiles: [{schedulerName: extended-scheduler}]\n"
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	ready, err := w.ReadyAt(port, "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	stock, err := w.Run(ctx, local.Program{
		Name: "extended-scheduler", Path: filepath.Join(w.bin, "kube-scheduler"), Ready: ready,
		Args: append(w.ServeArgs(port, kubeconfig), "--config="+write("scheduler.yaml", []byte(text))),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stock.Stop()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "extended"},
		Spec: v1.PodSpec{SchedulerName: "extended-scheduler", Containers: []v1.Container{{
			Name: "main", Image: "example.com/main", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}},
		}}},
	}
	if _, err := w.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.pod("extended", "is bound by the extender", func(p *v1.Pod) bool { return isBound(p) && p.Annotations[names.AnnotationDevices] != "" })
	if err := w.client.CoreV1().Pods("default").Delete(ctx, "extended", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the pod is gone", 30*time.Second, func() (bool, string) {
		_, err := w.client.CoreV1().Pods("default").Get(ctx, "extended", metav1.GetOptions{})
		return err != nil, "it is there"
	})
}
