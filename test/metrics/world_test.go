// Package metrics tests the scheduler's metrics from outside: a real API server, the
// scheduler as its users run it, and scrapes over HTTPS with tokens.
package metrics

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

// world is one control plane with a scheduler.
type world struct {
	*cluster.Cluster
	t    *testing.T
	url  string // of the scheduler
	http *http.Client
	pid  int // of the scheduler
}

// newWorld starts a control plane with nodes and, if there is a configuration, a
// scheduler.
func newWorld(t *testing.T, nodes, configuration string, manifests ...string) *world {
	t.Helper()
	w := &world{t: t, Cluster: cluster.ForTest(t, cluster.Options{
		Kubernetes: local.Options{Bin: cluster.Bin(t, "kwok", "gpu-scheduler"), KWOK: true},
		Manifests:  append([][]byte{config.RBAC(), config.CRDs(), config.VolcanoCRDs()}, bytesOf(manifests)...),
		Fleet:      nodes,
	})}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.RESTConfig().CAData)
	w.http = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	w.url, w.pid = w.scheduler("gpu-scheduler", configuration)
	return w
}

func bytesOf(texts []string) (out [][]byte) {
	for _, s := range texts {
		out = append(out, []byte(s))
	}
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scheduler starts gpu-scheduler as the manifests do: with leader election, and asking the
// API server who may read its metrics.
func (w *world) scheduler(name, configuration string) (url string, pid int) {
	w.t.Helper()
	p, err := w.Launch(context.Background(), local.Component{Name: "gpu-scheduler", As: name, Config: []byte(configuration)})
	must(w.t, err)
	return fmt.Sprintf("https://127.0.0.1:%d/metrics", p.Port), p.Pid()
}

// token makes a ServiceAccount, with or without the right to read metrics, and returns
// its token.
func (w *world) token(name string, may bool) string {
	w.t.Helper()
	ctx := context.Background()
	_, err := w.Client.CoreV1().ServiceAccounts("default").Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(w.t, err)
	if may {
		_, err = w.Client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		}, metav1.CreateOptions{})
		must(w.t, err)
		_, err = w.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: "default"}},
		}, metav1.CreateOptions{})
		must(w.t, err)
	}
	token, err := w.Token(ctx, "default", name)
	must(w.t, err)
	return token
}

// get asks for the metrics with a token, or without.
func (w *world) get(token string) (status int, body string) {
	w.t.Helper()
	request, err := http.NewRequest(http.MethodGet, w.url, nil)
	must(w.t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := w.http.Do(request)
	must(w.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(w.t, err)
	return response.StatusCode, string(text)
}

// samples are the values of a scrape, by name and labels as Prometheus' text has them.
type samples map[string]float64

// scrape reads all samples.
func (w *world) scrape(token string) samples {
	w.t.Helper()
	status, body := w.get(token)
	if status != http.StatusOK {
		w.t.Fatalf("status %d: %s", status, body)
	}
	out := samples{}
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		must(w.t, err)
		out[line[:at]] = value
	}
	return out
}

// of are the samples of one metric, for messages.
func (s samples) of(name string) string {
	var out []string
	for key, value := range s {
		if strings.HasPrefix(key, name+"{") || key == name {
			out = append(out, fmt.Sprintf("%s %g", key, value))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// expect waits until a scrape has these values.
func (w *world) expect(token string, want samples) samples {
	w.t.Helper()
	var got samples
	await.Complete(w.t, "samples", 30*time.Second, func() string {
		got = w.scrape(token)
		var wrong []string
		for key, value := range want {
			if got[key] != value {
				name, _, _ := strings.Cut(key, "{")
				wrong = append(wrong, fmt.Sprintf("%s: want %g, have\n%s", key, value, got.of(name)))
			}
		}
		return strings.Join(wrong, "\n")
	})
	return got
}

// pod is a pod that asks for GPUs; change may make it anything else.
func pod(name string, gpus int, change ...func(*v1.Pod)) *v1.Pod {
	return cluster.Pod("default", name, int64(gpus), change...)
}

func (w *world) create(pods ...*v1.Pod) {
	w.t.Helper()
	for _, p := range pods {
		w.Create(w.t, p)
	}
}

func inQueue(queue string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Labels[names.LabelQueue] = queue }
}

func ofUser(user string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations[names.AnnotationUser] = user }
}

func ofPriority(class string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.PriorityClassName = class }
}

func onModel(model string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations[names.AnnotationUseModel] = model }
}

func inGang(gang string, size int) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = gang, strconv.Itoa(size) }
}
