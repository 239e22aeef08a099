// Package asktest is a cluster for tests of clients of the query API: an API server that
// has a Lease, pods, namespaces and port-forwards, and a scheduler with prepared answers.
package asktest

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tangram-dev/tangram/api/query"
)

// Token is the credential of the kubeconfig; everything else is answered 401.
const Token = "a-valid-token"

// Answer is what the scheduler says to a path, or to a path with its parameters.
type Answer struct {
	Status int // 0: 200
	Body   string
}

// Request is what the scheduler was asked.
type Request struct {
	Method, URI, Token, Body string
}

// Cluster is an API server and a scheduler.
type Cluster struct {
	// Kubeconfig is a file; its namespace is ml-team.
	Kubeconfig string
	API        *httptest.Server
	Scheduler  *httptest.Server
	// Lease is what the API server returns; nil: 404. LeaseStatus, if set, is an error.
	Lease       *coordinationv1.Lease
	LeaseStatus int
	Namespaces  []string
	Pods        []v1.Pod
	// Forward, if not nil, answers port-forwards.
	Forward http.Handler

	mu       sync.Mutex
	answers  map[string][]Answer
	requests []Request
}

// New starts a cluster whose scheduler answers files of a folder: fleet.json to
// /query/v1/fleet. Empty: nothing.
func New(t *testing.T, folder string) *Cluster {
	t.Helper()
	c := &Cluster{answers: map[string][]Answer{}}
	if folder != "" {
		files, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			body, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			c.Answer(query.Prefix+strings.TrimSuffix(filepath.Base(f), ".json"), Answer{Body: string(body)})
		}
	}
	c.Scheduler = httptest.NewTLSServer(http.HandlerFunc(c.scheduler))
	t.Cleanup(c.Scheduler.Close)
	c.API = httptest.NewTLSServer(http.HandlerFunc(c.api))
	t.Cleanup(c.API.Close)
	c.SetEndpoint(c.Endpoint())
	c.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	c.write(t, c.Kubeconfig, Token)
	return c
}

// Endpoint is the scheduler's.
func (c *Cluster) Endpoint() query.Endpoint {
	return query.Endpoint{
		Address: c.Scheduler.Listener.Addr().String(), CA: pemOf(c.Scheduler), ServerName: "example.com", Holder: "gpu-scheduler-0",
	}
}

// SetEndpoint writes it into the Lease.
func (c *Cluster) SetEndpoint(e query.Endpoint) {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Lease = &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "gpu-scheduler", Annotations: map[string]string{query.AnnotationEndpoint: string(text)}},
	}
}

// Answer adds an answer to a path (with parameters, or without for any). Of several each is
// given once, in turn, and the last for ever.
func (c *Cluster) Answer(path string, a Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[path] = append(c.answers[path], a)
}

// Replace removes the answers to a path and adds one.
func (c *Cluster) Replace(path string, a Answer) {
	c.mu.Lock()
	delete(c.answers, path)
	c.mu.Unlock()
	c.Answer(path, a)
}

// Requests are what the scheduler was asked so far.
func (c *Cluster) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Request(nil), c.requests...)
}

// WithToken writes a kubeconfig with another token and returns its path.
func (c *Cluster) WithToken(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	c.write(t, path, token)
	return path
}

func (c *Cluster) write(t *testing.T, path, token string) {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: c.API.URL, CertificateAuthorityData: []byte(pemOf(c.API))}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: "ml-team"}
	config.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
}

func pemOf(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func (c *Cluster) scheduler(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	c.mu.Lock()
	c.requests = append(c.requests, Request{r.Method, r.URL.RequestURI(), token, string(body)})
	key := r.URL.RequestURI()
	if c.answers[key] == nil {
		key = r.URL.Path
	}
	a := Answer{Status: http.StatusNotFound, Body: `{"status":404,"reason":"NotFound","message":"no such path"}`}
	if list := c.answers[key]; len(list) > 0 {
		a = list[0]
		if len(list) > 1 {
			c.answers[key] = list[1:]
		}
	}
	c.mu.Unlock()
	if token != Token {
		a = Answer{Status: http.StatusUnauthorized, Body: `{"status":401,"reason":"Unauthorized","message":"no valid bearer token or client certificate"}`}
	}
	w.Header().Set("Content-Type", "application/json")
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	_, _ = w.Write([]byte(a.Body))
}

func (c *Cluster) api(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	lease, status := c.Lease, c.LeaseStatus
	c.mu.Unlock()
	reply := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	fail := func(code int, reason metav1.StatusReason) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "the API server says " + string(reason)})
	}
	switch {
	case r.Header.Get("Authorization") != "Bearer "+Token:
		fail(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
	case strings.HasSuffix(r.URL.Path, "/portforward") && c.Forward != nil:
		c.Forward.ServeHTTP(w, r)
	case r.URL.Path == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/gpu-scheduler" && status == http.StatusForbidden:
		fail(status, metav1.StatusReasonForbidden)
	case r.URL.Path == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/gpu-scheduler" && lease != nil:
		reply(lease)
	case r.URL.Path == "/api/v1/namespaces":
		list := v1.NamespaceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}}
		for _, name := range c.Namespaces {
			list.Items = append(list.Items, v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		reply(list)
	case strings.HasSuffix(r.URL.Path, "/pods"):
		reply(v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: c.Pods})
	default:
		fail(http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}
