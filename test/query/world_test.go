// Package query tests the scheduler's query API on a real API server, from outside: over
// its HTTPS port, with tokens and client certificates, as callers with different rights.
// All tests share one cluster.
package query

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/names"
	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
)

// world is the cluster that all tests share: two replicas of the scheduler, one leads.
type world struct {
	*local.Cluster
	client   kubernetes.Interface
	endpoint apiquery.Endpoint
	// ports are the query ports of the replicas.
	ports []int
}

var shared struct {
	sync.Mutex
	world *world
	err   error
}

// TestMain stops the shared cluster after the last test.
func TestMain(m *testing.M) {
	code := m.Run()
	if w := shared.world; w != nil {
		err := w.Discard()
		if err == nil && code == 0 { // logs of a failure are kept
			err = os.RemoveAll(w.Dir())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// sharedWorld starts the cluster once.
func sharedWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short, and this test starts a control plane")
	}
	dir := os.Getenv("TANGRAM_BIN")
	if dir == "" {
		dir, _ = filepath.Abs(filepath.Join("..", "..", "bin"))
	}
	if err := local.RequirePrograms(dir, "etcd", "kube-apiserver", "kwok", "gpu-scheduler"); err != nil {
		if os.Getenv("TANGRAM_BIN") != "" {
			t.Fatal(err) // make has built them: a skip would hide a broken build
		}
		t.Skipf("skipped: %v", err)
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.world == nil && shared.err == nil {
		shared.world, shared.err = startWorld(dir)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.world
}

// The fleet: pool n is the tenants', each other pool one test's alone.
const pools = `pools:
- {name: n, count: 4, gpu: {model: A100-80GB, count: 8}}
- {name: s, count: 3, gpu: {model: A100-80GB, count: 4}}
- {name: x, count: 4, gpu: {model: A100-80GB, count: 4}}
`

func startWorld(bin string) (w *world, err error) {
	dir, err := os.MkdirTemp("", "tangram-query-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cluster, err := local.Start(ctx, local.Options{Dir: dir, Bin: bin, KWOK: true})
	if err != nil {
		return nil, err
	}
	w = &world{Cluster: cluster}
	defer func() {
		if err != nil {
			_ = cluster.Stop()
		}
	}()
	if w.client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return nil, err
	}
	for _, doc := range [][]byte{config.CRDs(), config.VolcanoCRDs(), config.RBAC(), []byte(callers)} {
		if err := cluster.ApplyManifests(ctx, doc); err != nil {
			return nil, err
		}
	}
	f, err := fleet.Parse("fleet.yaml", []byte(pools))
	if err != nil {
		return nil, err
	}
	if err := cluster.CreateFleet(ctx, f); err != nil {
		return nil, err
	}
	for i := range 2 {
		if err := w.scheduler(ctx, fmt.Sprintf("gpu-scheduler-%d", i), bin); err != nil {
			return nil, err
		}
		if err := w.awaitLeader(ctx, ""); err != nil {
			return nil, err
		}
	}
	// The second one has to say where it answers when it comes to lead; a third follows.
	first := w.endpoint.Holder
	if err := w.Process("gpu-scheduler-0").Stop(); err != nil {
		return nil, err
	}
	if err := w.scheduler(ctx, "gpu-scheduler-2", bin); err != nil {
		return nil, err
	}
	w.ports = w.ports[1:]
	return w, w.awaitLeader(ctx, first)
}

// scheduler starts a replica.
func (w *world) scheduler(ctx context.Context, name, bin string) error {
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
	w.ports = append(w.ports, asked)
	_, err = w.Run(ctx, local.Program{Name: name, Path: filepath.Join(bin, "gpu-scheduler"), Ready: ready,
		Args: append(w.ServeArgs(port, kubeconfig), local.QueryArg(asked))})
	return err
}

// awaitLeader reads from the Lease where to ask, once another than before leads.
func (w *world) awaitLeader(ctx context.Context, before string) error {
	for {
		lease, err := w.client.CoordinationV1().Leases("kube-system").Get(ctx, "gpu-scheduler", metav1.GetOptions{})
		if err == nil {
			if text := lease.Annotations[apiquery.AnnotationEndpoint]; text != "" && lease.Spec.HolderIdentity != nil {
				if err := json.Unmarshal([]byte(text), &w.endpoint); err != nil {
					return err
				}
				if w.endpoint.Holder == *lease.Spec.HolderIdentity && w.endpoint.Holder != before {
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nobody leads: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// callers are the service accounts that ask. viewer and the tenants may get the paths;
// tenants may list the pods of their own namespace.
const callers = `
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
---
apiVersion: v1
kind: Namespace
metadata: {name: team-b}
---
apiVersion: v1
kind: Namespace
metadata: {name: ops}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: alice, namespace: team-a}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: bob, namespace: team-b}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: viewer, namespace: ops}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator, namespace: ops}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: nobody, namespace: ops}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: query-viewers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tangram-viewer}
subjects:
- {kind: ServiceAccount, name: alice, namespace: team-a}
- {kind: ServiceAccount, name: bob, namespace: team-b}
- {kind: ServiceAccount, name: mallory, namespace: team-c}
- {kind: ServiceAccount, name: viewer, namespace: ops}
- {kind: ServiceAccount, name: operator, namespace: ops}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: carol}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pods}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pods, namespace: team-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pods}
subjects: [{kind: ServiceAccount, name: alice, namespace: team-a}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pods, namespace: team-b}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pods}
subjects: [{kind: ServiceAccount, name: bob, namespace: team-b}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nodes}
rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nodes}
subjects:
- {kind: ServiceAccount, name: alice, namespace: team-a}
- {kind: ServiceAccount, name: bob, namespace: team-b}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 10
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: asecret-queue}
spec: {weight: 2, capability: {nvidia.com/gpu: 64}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: bsecret-queue, annotations: {tangram.dev/namespaces: team-b}}
spec: {weight: 1}
---
apiVersion: v1
kind: Namespace
metadata: {name: team-c}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: mallory, namespace: team-c}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pods, namespace: team-c}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pods}
subjects: [{kind: ServiceAccount, name: mallory, namespace: team-c}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: everything}
rules:
- {nonResourceURLs: ["/query/v1/*"], verbs: [get]}
- {apiGroups: [""], resources: [pods, nodes], verbs: [list]}
- {apiGroups: [scheduling.volcano.sh], resources: [queues], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: operators}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: everything}
subjects: [{kind: ServiceAccount, name: operator, namespace: ops}]
`

// asker asks with some credentials.
type asker struct {
	http    *http.Client
	base    string
	headers map[string]string
}

// as asks the leader with a service account's token: "namespace/name".
func (w *world) as(t *testing.T, account string) *asker {
	t.Helper()
	namespace, name, _ := strings.Cut(account, "/")
	seconds := int64(3600)
	token, err := w.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w.bearer(token.Status.Token)
}

// bearer asks the leader with a token; empty: with none.
func (w *world) bearer(token string) *asker {
	a := &asker{base: "https://" + w.endpoint.Address, headers: map[string]string{}, http: w.transport(nil)}
	if token != "" {
		a.headers["Authorization"] = "Bearer " + token
	}
	return a
}

// transport trusts what the Lease says, and nothing else.
func (w *world) transport(certificate *tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(w.endpoint.CA))
	settings := &tls.Config{RootCAs: pool, ServerName: w.endpoint.ServerName}
	if certificate != nil {
		settings.Certificates = []tls.Certificate{*certificate}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: settings}, Timeout: time.Minute}
}

// do asks and returns the status and the body.
func (a *asker) do(t *testing.T, method, path string, body io.Reader) (int, []byte, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, a.base+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range a.headers {
		r.Header.Set(k, v)
	}
	answer, err := a.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Header.Get("Content-Encoding") == "gzip" { // asked for by the test itself
		z, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if text, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return answer.StatusCode, text, answer.Header
}

// get asks for an answer that must come.
func get[A any](t *testing.T, a *asker, path string) *A {
	t.Helper()
	status, text, _ := a.do(t, http.MethodGet, path, nil)
	if status != http.StatusOK {
		t.Fatalf("%s: %d: %s", path, status, text)
	}
	out := new(A)
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("%s: %v in %s", path, err, text)
	}
	return out
}

// refused asks for what must be refused, and returns the error.
func refused(t *testing.T, a *asker, method, path string, body io.Reader, status int) *apiquery.Error {
	t.Helper()
	got, text, _ := a.do(t, method, path, body)
	out := &apiquery.Error{}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("%s %.80s: %d: %.200s", method, path, got, text)
	}
	if got != status || out.Status != status || out.Reason == "" || out.Message == "" {
		t.Fatalf("%s %.80s: got %d %+v, want %d", method, path, got, out, status)
	}
	return out
}

// patience is for what takes two seconds on a quiet machine.
const patience = 60 * time.Second

// eventually waits until something is true; the last answer says what is wrong.
func eventually(t *testing.T, what string, done func() (bool, string)) {
	t.Helper()
	last := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ok, why := done()
		if ok {
			return
		}
		last = why
	}
	t.Fatalf("%s: not within %s: %s", what, patience, last)
}

// pod asks for GPUs; change may make it anything else.
func (w *world) pod(t *testing.T, namespace, name string, gpus int64, change ...func(*v1.Pod)) {
	t.Helper()
	amount := v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(gpus, resource.DecimalSI)}
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: v1.PodSpec{SchedulerName: names.SchedulerName, Containers: []v1.Container{{
			Name: "main", Image: "pause", Resources: v1.ResourceRequirements{Requests: amount, Limits: amount},
		}}},
	}
	for _, c := range change {
		c(p)
	}
	if _, err := w.client.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
