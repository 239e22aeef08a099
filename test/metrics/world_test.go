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
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
)

// world is one control plane with a scheduler.
type world struct {
	*local.Cluster
	t      *testing.T
	client kubernetes.Interface
	bin    string
	url    string // of the scheduler
	http   *http.Client
	pid    int // of the scheduler
}

// newWorld starts a control plane with nodes and, if there is a configuration, a
// scheduler.
func newWorld(t *testing.T, nodes, configuration string, manifests ...string) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short, and this test starts a control plane")
	}
	bin := os.Getenv("TANGRAM_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", "bin")
	}
	if err := local.RequirePrograms(bin, "etcd", "kube-apiserver", "kwok", "gpu-scheduler"); err != nil {
		if os.Getenv("TANGRAM_BIN") != "" {
			t.Fatal(err)
		}
		t.Skipf("skipped: %v", err)
	}
	bin, err := filepath.Abs(bin)
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cluster, err := local.Start(ctx, local.Options{Dir: t.TempDir(), Bin: bin, KWOK: true})
	must(t, err)
	w := &world{Cluster: cluster, t: t, bin: bin}
	t.Cleanup(func() {
		if err := cluster.Discard(); err != nil {
			t.Error(err)
		}
	})
	w.client, err = kubernetes.NewForConfig(cluster.RESTConfig())
	must(t, err)
	for _, d := range append([][]byte{config.RBAC(), config.CRDs(), config.VolcanoCRDs()}, bytesOf(manifests)...) {
		must(t, cluster.ApplyManifests(ctx, d))
	}
	f, err := fleet.Parse("fleet.yaml", []byte(nodes))
	must(t, err)
	must(t, cluster.CreateFleet(ctx, f))
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
	file := filepath.Join(w.Dir(), name+".yaml")
	must(w.t, os.WriteFile(file, []byte(configuration), 0o600))
	kubeconfig, err := w.KubeconfigFor("system:tangram:gpu-scheduler")
	must(w.t, err)
	port, err := local.FreePort()
	must(w.t, err)
	ready, err := w.ReadyAt(port, "/healthz")
	must(w.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := w.Run(ctx, local.Program{
		Name: name, Path: filepath.Join(w.bin, "gpu-scheduler"), Args: append(w.ServeArgs(port, kubeconfig), "--config="+file), Ready: ready,
	})
	must(w.t, err)
	return fmt.Sprintf("https://127.0.0.1:%d/metrics", port), p.Pid()
}

// token makes a ServiceAccount, with or without the right to read metrics, and returns
// its token.
func (w *world) token(name string, may bool) string {
	w.t.Helper()
	ctx := context.Background()
	_, err := w.client.CoreV1().ServiceAccounts("default").Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(w.t, err)
	if may {
		_, err = w.client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		}, metav1.CreateOptions{})
		must(w.t, err)
		_, err = w.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: "default"}},
		}, metav1.CreateOptions{})
		must(w.t, err)
	}
	answer, err := w.client.CoreV1().ServiceAccounts("default").CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(w.t, err)
	return answer.Status.Token
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
	for deadline := time.Now().Add(30 * time.Second); ; {
		got := w.scrape(token)
		var wrong []string
		for key, value := range want {
			if got[key] != value {
				name, _, _ := strings.Cut(key, "{")
				wrong = append(wrong, fmt.Sprintf("%s: want %g, have\n%s", key, value, got.of(name)))
			}
		}
		if len(wrong) == 0 {
			return got
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("not within 30 s:\n%s", strings.Join(wrong, "\n"))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// pod is a pod that asks for GPUs; change may make it anything else.
func pod(name string, gpus int, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Annotations: map[string]string{}, Labels: map[string]string{}},
		Spec: v1.PodSpec{
			SchedulerName: names.SchedulerName,
			Containers: []v1.Container{{
				Name: "main", Image: "pause",
				Resources: v1.ResourceRequirements{Limits: v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}},
			}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func (w *world) create(pods ...*v1.Pod) {
	w.t.Helper()
	for _, p := range pods {
		_, err := w.client.CoreV1().Pods(p.Namespace).Create(context.Background(), p, metav1.CreateOptions{})
		must(w.t, err)
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
