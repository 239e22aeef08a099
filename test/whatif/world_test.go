// Package whatif asks a real scheduler what would become of random manifests, creates them,
// and compares: on a real API server, over the query port.
package whatif

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
)

// patience is for what takes moments, on slow machines.
const patience = 45 * time.Second

type world struct {
	*local.Cluster
	t      *testing.T
	client kubernetes.Interface
	pods   corelisters.PodLister
	http   *http.Client
	base   string
	// changed tells that a pod has changed.
	changed chan struct{}
}

func newWorld(t *testing.T, pools string) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short, and this test starts a control plane")
	}
	bin := os.Getenv("TANGRAM_BIN")
	if bin == "" {
		bin, _ = filepath.Abs(filepath.Join("..", "..", "bin"))
	}
	if err := local.RequirePrograms(bin, "etcd", "kube-apiserver", "gpu-scheduler"); err != nil {
		if os.Getenv("TANGRAM_BIN") != "" {
			t.Fatal(err) // make has built them: a skip would hide a broken build
		}
		t.Skipf("skipped: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cluster, err := local.Start(ctx, local.Options{Dir: t.TempDir(), Bin: bin})
	must(t, err)
	w := &world{Cluster: cluster, t: t, changed: make(chan struct{}, 1)}
	t.Cleanup(func() {
		if err := cluster.Discard(); err != nil {
			t.Error(err)
		}
	})
	settings := rest.CopyConfig(cluster.RESTConfig())
	settings.QPS, settings.Burst = 1000, 1000
	w.client, err = kubernetes.NewForConfig(settings)
	must(t, err)
	must(t, cluster.ApplyManifests(ctx, config.RBAC()))
	must(t, cluster.ApplyManifests(ctx, config.CRDs()))
	f, err := fleet.Parse("fleet.yaml", []byte(pools))
	must(t, err)
	must(t, w.CreateFleet(ctx, f))
	for name, value := range map[string]int32{"low": 10, "mid": 100, "high": 1000} {
		_, err := w.client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}, metav1.CreateOptions{})
		must(t, err)
	}
	w.follow()
	must(t, w.scheduler(ctx, bin))
	must(t, w.connect(ctx))
	return w
}

// follow watches pods.
func (w *world) follow() {
	factory := informers.NewSharedInformerFactory(w.client, 0)
	informer := factory.Core().V1().Pods()
	kick := func() {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	_, err := informer.Informer().AddEventHandler(handler(kick))
	must(w.t, err)
	w.pods = informer.Lister()
	factory.Start(w.t.Context().Done())
	factory.WaitForCacheSync(w.t.Context().Done())
}

func (w *world) scheduler(ctx context.Context, bin string) error {
	kubeconfig, err := w.KubeconfigFor("system:tangram:gpu-scheduler")
	if err != nil {
		return err
	}
	port, err := local.FreePort()
	if err != nil {
		return err
	}
	asked, err := local.FreePort()
	if err != nil {
		return err
	}
	ready, err := w.ReadyAt(port, "/healthz")
	if err != nil {
		return err
	}
	// What waits is told sooner than by default.
	text := strings.Replace(string(config.Scheduler()), "      patience: 6h\n", "      patience: 6h\n      reportEvery: 1s\n", 1)
	file := filepath.Join(w.Dir(), "scheduler.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	_, err = w.Run(ctx, local.Program{Name: "gpu-scheduler", Path: filepath.Join(bin, "gpu-scheduler"), Ready: ready,
		Args: append(w.ServeArgs(port, kubeconfig), "--config="+file, "--leader-elect=false", "--query-listen=127.0.0.1:"+strconv.Itoa(asked))})
	return err
}

// connect finds the query port through the Lease.
func (w *world) connect(ctx context.Context) error {
	var endpoint apiquery.Endpoint
	for endpoint.Address == "" {
		lease, err := w.client.CoordinationV1().Leases("kube-system").Get(ctx, "gpu-scheduler", metav1.GetOptions{})
		if err == nil {
			if text := lease.Annotations[apiquery.AnnotationEndpoint]; text != "" {
				if err := json.Unmarshal([]byte(text), &endpoint); err != nil {
					return err
				}
				break
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nobody answers: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
	c := w.RESTConfig().TLSClientConfig
	cert, key := c.CertData, c.KeyData
	if len(cert) == 0 {
		var err error
		if cert, err = os.ReadFile(c.CertFile); err != nil {
			return err
		}
		if key, err = os.ReadFile(c.KeyFile); err != nil {
			return err
		}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(endpoint.CA))
	w.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: endpoint.ServerName, Certificates: []tls.Certificate{pair}}}}
	w.base = "https://" + endpoint.Address
	return nil
}

// ask asks the scheduler.
func (w *world) ask(method, path, body string, out any) {
	w.t.Helper()
	text := w.askText(method, path, body)
	if err := json.Unmarshal(text, out); err != nil {
		w.t.Fatalf("%s: %v: %s", path, err, text)
	}
}

func (w *world) askText(method, path, body string) []byte {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, strings.NewReader(body))
	must(w.t, err)
	answer, err := w.http.Do(r)
	must(w.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(w.t, err)
	if answer.StatusCode != http.StatusOK {
		w.t.Fatalf("%s %s: %d: %s", method, path, answer.StatusCode, text)
	}
	return text
}

// until waits for something that pods' events bring about.
func (w *world) until(holds func() bool) bool {
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-deadline:
			return false
		case <-w.changed:
		}
	}
	return true
}

// pod is a pod as it is now, or nil.
func (w *world) pod(name string) *v1.Pod {
	p, err := w.pods.Pods("default").Get(name)
	if err != nil {
		return nil
	}
	return p
}

// waits says whether a pod has been told that it waits.
func waits(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return p.Spec.NodeName == ""
		}
	}
	return false
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
