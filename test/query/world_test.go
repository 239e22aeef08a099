// Package query tests the scheduler's query API on a real API server, from outside: over
// its HTTPS port, with tokens and client certificates, as callers with different rights.
// All tests share one cluster.
package query

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

// world is the cluster that all tests share: two replicas of the scheduler, one leads.
type world struct {
	*cluster.Cluster
	endpoint apiquery.Endpoint
	// ports are the query ports of the replicas.
	ports []int
}

var shared cluster.Shared[*world]

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// sharedWorld starts the cluster once.
func sharedWorld(t *testing.T) *world {
	t.Helper()
	bin := cluster.Bin(t, "kwok", "gpu-scheduler")
	return shared.Get(t, func() (*world, error) { return startWorld(bin) })
}

// The fleet: pool n is the tenants', each other pool one test's alone.
const pools = `pools:
- {name: n, count: 4, gpu: {model: A100-80GB, count: 8}}
- {name: s, count: 3, gpu: {model: A100-80GB, count: 4}}
- {name: x, count: 4, gpu: {model: A100-80GB, count: 4}}
`

func startWorld(bin string) (*world, error) {
	c, err := cluster.Start(cluster.Options{
		Kubernetes: local.Options{Bin: bin, KWOK: true},
		Manifests:  [][]byte{config.CRDs(), config.VolcanoCRDs(), config.RBAC(), []byte(objects), callers},
		Fleet:      pools,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	w := &world{Cluster: c}
	return w, c.EndIf(w.replicas(ctx))
}

// replicas starts three schedulers, of which two are left: the second one has to say where it
// answers when it comes to lead, the third follows.
func (w *world) replicas(ctx context.Context) error {
	for i := range 2 {
		if err := w.scheduler(ctx, i); err != nil {
			return err
		}
		if err := w.awaitLeader(ctx, ""); err != nil {
			return err
		}
	}
	first := w.endpoint.Holder
	if err := w.Process("gpu-scheduler-0").Stop(); err != nil {
		return err
	}
	if err := w.scheduler(ctx, 2); err != nil {
		return err
	}
	w.ports = w.ports[1:]
	return w.awaitLeader(ctx, first)
}

// scheduler starts a replica.
func (w *world) scheduler(ctx context.Context, replica int) error {
	p, err := w.Launch(ctx, local.Component{Name: "gpu-scheduler", As: fmt.Sprintf("gpu-scheduler-%d", replica), Answers: true})
	if err != nil {
		return err
	}
	w.ports = append(w.ports, p.QueryPort)
	return nil
}

// awaitLeader reads from the Lease where to ask, once another than before leads.
func (w *world) awaitLeader(ctx context.Context, before string) (err error) {
	w.endpoint, err = w.Endpoint(ctx, "gpu-scheduler", func(l *coordinationv1.Lease, e apiquery.Endpoint) bool {
		holder := l.Spec.HolderIdentity
		return holder != nil && e.Holder == *holder && e.Holder != before
	})
	return err
}

// callers ask: viewer and the tenants may get the paths, tenants may list the pods of their
// own namespace.
var callers = cluster.Accounts(
	cluster.Account{Namespace: "team-a", Name: "alice", Everywhere: []string{"tangram-viewer", "nodes"}, Own: []string{"pods"}},
	cluster.Account{Namespace: "team-b", Name: "bob", Everywhere: []string{"tangram-viewer", "nodes"}, Own: []string{"pods"}},
	cluster.Account{Namespace: "team-c", Name: "mallory", Everywhere: []string{"tangram-viewer"}, Own: []string{"pods"}},
	cluster.Account{Namespace: "ops", Name: "viewer", Everywhere: []string{"tangram-viewer"}},
	cluster.Account{Namespace: "ops", Name: "operator", Everywhere: []string{"tangram-viewer", "everything"}},
	cluster.Account{Namespace: "ops", Name: "nobody"},
)

// objects are the callers' namespaces and roles, a user with a certificate, and what pods
// name.
const objects = `
{apiVersion: v1, kind: Namespace, metadata: {name: team-a}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: team-b}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: team-c}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: ops}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: carol}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tangram-viewer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: carol}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pods}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nodes}
rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: everything}
rules:
- {nonResourceURLs: ["/query/v1/*"], verbs: [get]}
- {apiGroups: [""], resources: [pods, nodes], verbs: [list]}
- {apiGroups: [scheduling.volcano.sh], resources: [queues], verbs: [list]}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: 10}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
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
	token, err := w.Token(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return w.bearer(token)
}

// bearer asks the leader with a token; empty: with none.
func (w *world) bearer(token string) *asker {
	a := &asker{base: "https://" + w.endpoint.Address, headers: map[string]string{}, http: cluster.HTTPClient(w.endpoint)}
	if token != "" {
		a.headers["Authorization"] = "Bearer " + token
	}
	return a
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
	await.Eventually(t, what, patience, done)
}

// pod asks for GPUs; change may make it anything else.
func (w *world) pod(t *testing.T, namespace, name string, gpus int64, change ...func(*v1.Pod)) {
	t.Helper()
	w.Create(t, cluster.Pod(namespace, name, gpus, change...))
}
