// Package query tests the scheduler's query API on a real API server, from outside: over
// its HTTPS port, with tokens and client certificates, as callers with different rights.
// All tests share one cluster.
package query

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// world is the cluster that all tests share: two replicas of the scheduler, one leads.
type world struct {
	*cluster.World
	endpoint apiquery.Endpoint
	// ports are the query ports of the replicas.
	ports []int
}

var shared cluster.Shared[*world]

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// sharedWorld starts the cluster once.
func sharedWorld(t *testing.T) *world {
	t.Helper()
	return shared.Get(t, func() *world { return startWorld(t) }).in(t)
}

// in is the world of another test.
func (w *world) in(t *testing.T) *world {
	out := *w
	out.World = w.In(t)
	return &out
}

// The fleet: pool n is the tenants', each other pool one test's alone.
const pools = `pools:
- {name: n, count: 4, gpu: {model: A100-80GB, count: 8}}
- {name: s, count: 3, gpu: {model: A100-80GB, count: 4}}
- {name: x, count: 4, gpu: {model: A100-80GB, count: 4}}
`

// startWorld starts three schedulers, of which two are left: the second one has to say where
// it answers when it comes to lead, the third follows.
func startWorld(t *testing.T) *world {
	w := &world{World: cluster.Open(t, cluster.Options{
		Programs:   []string{"gpu-scheduler"},
		Kubernetes: local.Options{KWOK: true},
		Manifests:  cluster.Manifests(callers, []byte(objects)),
		Fleet:      pools,
	})}
	first := w.replica()
	w.awaitLeader("")
	w.replica()
	before := w.endpoint.Holder
	w.Must(first.Stop())
	w.replica()
	w.ports = w.ports[1:]
	w.awaitLeader(before)
	return w
}

// replica starts a scheduler.
func (w *world) replica() *local.Serving {
	w.T.Helper()
	p := w.Start(local.Component{Name: "gpu-scheduler", Answers: true})
	w.ports = append(w.ports, p.QueryPort)
	return p
}

// awaitLeader reads from the Lease where to ask, once another than before leads.
func (w *world) awaitLeader(before string) {
	w.T.Helper()
	w.endpoint = w.Endpoint("gpu-scheduler", func(holder string, e apiquery.Endpoint) bool {
		return holder != "" && e.Holder == holder && e.Holder != before
	})
}

// callers ask: viewer and the tenants may get the paths, tenants may list the pods of their
// own namespace.
var callers = cluster.Accounts(
	cluster.Account{Namespace: "team-a", Name: "alice", Everywhere: []string{"tangram-viewer", "list-nodes"}, Own: []string{"list-pods"}},
	cluster.Account{Namespace: "team-b", Name: "bob", Everywhere: []string{"tangram-viewer", "list-nodes"}, Own: []string{"list-pods"}},
	cluster.Account{Namespace: "team-c", Name: "mallory", Everywhere: []string{"tangram-viewer"}, Own: []string{"list-pods"}},
	cluster.Account{Namespace: "ops", Name: "viewer", Everywhere: []string{"tangram-viewer"}},
	cluster.Account{Namespace: "ops", Name: "operator", Everywhere: []string{"tangram-viewer", "everything"}},
	cluster.Account{Namespace: "ops", Name: "stranger"},
)

// objects are a user with a certificate, and what pods name.
const objects = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: carol}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tangram-viewer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: carol}]
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

// as asks the leader with a service account's token: "namespace/name".
func (w *world) as(account string) cluster.Asker {
	w.T.Helper()
	namespace, name, _ := strings.Cut(account, "/")
	return w.bearer(w.Token(namespace, name))
}

// bearer asks the leader with a token; "": with none.
func (w *world) bearer(token string) cluster.Asker {
	return cluster.AskerFor(w.endpoint).Bearer(token)
}

// refused asks for what must be refused, and returns the error.
func refused(t *testing.T, a cluster.Asker, method, path string, body io.Reader, status int) *apiquery.Error {
	t.Helper()
	got := a.Do(t, method, path, body)
	out := cluster.Decode[apiquery.Error](t, got.Text)
	if got.Status != status || out.Status != status || out.Reason == "" || out.Message == "" {
		t.Fatalf("%s %.80s: got %d %+v, want %d", method, path, got.Status, out, status)
	}
	return out
}

// unanswered is refused for a GET.
func unanswered(t *testing.T, a cluster.Asker, path string, status int) *apiquery.Error {
	t.Helper()
	return refused(t, a, http.MethodGet, path, nil, status)
}

// pod creates a pod that asks for GPUs; change may make it anything else.
func (w *world) pod(namespace, name string, gpus int, change ...func(*v1.Pod)) {
	w.T.Helper()
	w.Within(namespace).Create(cluster.Pod(name, gpus, change...))
}
