// Package whatif asks a real scheduler what would become of random manifests, creates them,
// and compares: on a real API server, over the query port.
package whatif

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// patience is for what takes moments, on slow machines.
const patience = 45 * time.Second

type world struct {
	*cluster.Cluster
	t    *testing.T
	pods corelisters.PodLister
	http *http.Client
	base string
	// changed tells that a pod has changed.
	changed chan struct{}
}

func newWorld(t *testing.T, pools string) *world {
	t.Helper()
	c := cluster.ForTest(t, cluster.Options{
		Kubernetes: local.Options{Bin: cluster.Bin(t, "gpu-scheduler")},
		Manifests:  [][]byte{config.RBAC(), config.CRDs()},
		Fleet:      pools,
	})
	w := &world{Cluster: c, t: t, changed: make(chan struct{}, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for name, value := range map[string]int32{"low": 10, "mid": 100, "high": 1000} {
		_, err := w.Client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}, metav1.CreateOptions{})
		must(t, err)
	}
	w.follow()
	// What waits is told sooner than by default.
	text := strings.Replace(string(config.Scheduler()), "      patience: 6h\n", "      patience: 6h\n      reportEvery: 1s\n", 1)
	_, err := w.Launch(ctx, local.Component{Name: "gpu-scheduler", Config: []byte(text), Answers: true, Flags: []string{cluster.Alone}})
	must(t, err)
	endpoint, err := w.Endpoint(ctx, "gpu-scheduler", nil)
	must(t, err)
	admin := w.RESTConfig()
	pair, err := tls.X509KeyPair(admin.CertData, admin.KeyData)
	must(t, err)
	w.http, w.base = cluster.HTTPClient(endpoint, pair), "https://"+endpoint.Address
	return w
}

// follow watches pods.
func (w *world) follow() {
	factory := informers.NewSharedInformerFactory(w.Client, 0)
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
	return cluster.Scheduled(p).Status == v1.ConditionFalse && p.Spec.NodeName == ""
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
