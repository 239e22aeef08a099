package ask_test

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/test/asktest"
)

func client(t *testing.T, c *asktest.Cluster, change ...func(*ask.Options)) *ask.Client {
	t.Helper()
	o := ask.Options{Kubeconfig: c.Kubeconfig}
	for _, f := range change {
		f(&o)
	}
	out, err := ask.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Close)
	return out
}

func fleetOf(t *testing.T, c *ask.Client) (*query.Fleet, error) {
	t.Helper()
	return ask.Get[query.Fleet](t.Context(), c, ask.About(query.PathFleet))
}

const fleet = `{"at":"2026-11-16T09:41:07Z","scheduler":{"holder":"h","version":"v"},"nodes":{"total":3},"models":[],"work":{}}`

// Every question goes to its path with its parameters and the kubeconfig's token.
func TestQuestions(t *testing.T) {
	c := asktest.New(t, "")
	for _, path := range []string{"fleet", "nodes", "queues", "gangs", "why", "explain", "whatif", "usage", "dump"} {
		c.Answer(query.Prefix+path, asktest.Answer{Body: "{}"})
	}
	a := client(t, c)
	ctx := t.Context()
	object := ask.Object{Kind: "Job", Namespace: "ns", Name: "x y"}
	for _, q := range []ask.Question{
		ask.About(query.PathFleet), ask.NodesQuestion(7), ask.NodesQuestion(0), ask.About(query.PathQueues),
		ask.GangsQuestion(ask.GangsParams{Namespace: "ns", Queue: "q", Phase: "Waiting", Limit: 5, Continue: "c"}),
		ask.WhyQuestion(object), ask.ExplainQuestion(object.Namespace, object.Name),
		ask.WhatIfQuestion("ns", []byte("kind: Job")), ask.About(query.PathUsage, query.ParamBy, "queue,model"),
	} {
		if _, err := a.Ask(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	body, err := a.Dump(ctx)
	if err != nil {
		t.Fatal(err)
	}
	body.Close()
	want := []asktest.Request{
		{Method: "GET", URI: "/query/v1/fleet"}, {Method: "GET", URI: "/query/v1/nodes?since=7"}, {Method: "GET", URI: "/query/v1/nodes"}, {Method: "GET", URI: "/query/v1/queues"},
		{Method: "GET", URI: "/query/v1/gangs?continue=c&limit=5&namespace=ns&phase=Waiting&queue=q"},
		{Method: "GET", URI: "/query/v1/why?kind=Job&name=x+y&namespace=ns"}, {Method: "GET", URI: "/query/v1/explain?name=x+y&namespace=ns"},
		{Method: "POST", URI: "/query/v1/whatif?namespace=ns", Body: "kind: Job"},
		{Method: "GET", URI: "/query/v1/usage?by=queue%2Cmodel"}, {Method: "GET", URI: "/query/v1/dump"},
	}
	for i := range want {
		want[i].Token = asktest.Token
	}
	if diff := cmp.Diff(want, c.Requests()); diff != "" {
		t.Error(diff)
	}
}

// The leader changes: the Lease is read again, and the question repeated.
func TestLeaderChanges(t *testing.T) {
	c, next := asktest.New(t, ""), asktest.New(t, "")
	c.Answer(query.PathFleet, asktest.Answer{Body: fleet})
	next.Answer(query.PathFleet, asktest.Answer{Body: fleet})
	a := client(t, c)
	if _, err := fleetOf(t, a); err != nil {
		t.Fatal(err)
	}
	c.Replace(query.PathFleet, asktest.Answer{Status: 503, Body: `{"status":503,"reason":"NotLeader","message":"no"}`})
	c.SetEndpoint(next.Endpoint())
	if _, err := fleetOf(t, a); err != nil {
		t.Fatal(err)
	}
	if n := len(next.Requests()); n != 1 {
		t.Errorf("the next leader was asked %d times", n)
	}
	// That one dies without a word, and the first leads again.
	next.Scheduler.CloseClientConnections()
	next.Scheduler.Close()
	c.Replace(query.PathFleet, asktest.Answer{Body: fleet})
	c.SetEndpoint(c.Endpoint())
	if _, err := fleetOf(t, a); err != nil {
		t.Fatal(err)
	}
}

// A busy scheduler is asked again; for ever busy is an error that says so.
func TestBusy(t *testing.T) {
	c := asktest.New(t, "")
	busy := asktest.Answer{Status: 429, Body: `{"status":429,"reason":"Busy","message":"too many questions"}`}
	c.Answer(query.PathFleet, busy)
	c.Answer(query.PathFleet, busy)
	c.Answer(query.PathFleet, asktest.Answer{Body: fleet})
	if _, err := fleetOf(t, client(t, c)); err != nil || len(c.Requests()) != 3 {
		t.Fatalf("%v after %d requests", err, len(c.Requests()))
	}
	c.Replace(query.PathFleet, busy)
	_, err := fleetOf(t, client(t, c, func(o *ask.Options) { o.Timeout = 250 * time.Millisecond }))
	if e := (*query.Error)(nil); !errors.As(err, &e) || e.Reason != "Busy" {
		t.Errorf("got %v", err)
	}
}

// Something else listens at the leader's address: no credential is shown to it.
func TestWrongCertificate(t *testing.T) {
	c := asktest.New(t, "")
	var requests atomic.Int32
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	other.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	other.StartTLS()
	defer other.Close()
	end := c.Endpoint()
	end.Address = other.Listener.Addr().String()
	c.SetEndpoint(end)
	_, err := fleetOf(t, client(t, c))
	if !ask.IsUnreachable(err) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests reached it", n)
	}
}

// What the Lease says may be anything; errors name the field.
func TestBadLease(t *testing.T) {
	tests := []struct{ name, annotation, want string }{
		{"none", "", "annotation tangram.dev/query-endpoint is missing"},
		{"no JSON", "{", "annotation tangram.dev/query-endpoint: unexpected end"},
		{"no address", `{"ca":"x","serverName":"y"}`, "address"},
		{"no CA", `{"address":"127.0.0.1:1","serverName":"y"}`, "ca and serverName"},
		{"CA of garbage", `{"address":"127.0.0.1:1","ca":"x","serverName":"y"}`, "not PEM"},
		{"too long", `{"address":"` + strings.Repeat("x", 70<<10) + `"}`, "too many"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := asktest.New(t, "")
			c.Lease.Annotations[query.AnnotationEndpoint] = tt.annotation
			_, err := fleetOf(t, client(t, c))
			if !ask.IsUnreachable(err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

// --scheduler overrides the address of the Lease, --scheduler-ca the certificate.
func TestSchedulerURL(t *testing.T) {
	c := asktest.New(t, "")
	c.Answer(query.PathFleet, asktest.Answer{Body: fleet})
	end := c.Endpoint()
	end.Address = "127.0.0.1:1"
	c.SetEndpoint(end)
	url := c.Scheduler.URL
	if _, err := fleetOf(t, client(t, c, func(o *ask.Options) { o.Scheduler = url })); err != nil {
		t.Error(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, []byte(end.CA), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Lease = nil
	if _, err := fleetOf(t, client(t, c, func(o *ask.Options) { o.Scheduler, o.SchedulerCA = url, ca })); err != nil {
		t.Error(err)
	}
}

// An address that is not reachable from here is reached through the API server, as kubectl
// port-forward does it.
func TestPortForward(t *testing.T) {
	c := asktest.New(t, "")
	c.Answer(query.PathFleet, asktest.Answer{Body: fleet})
	ports := make(chan string, 16)
	c.Forward = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "websocket" { // an API server that only knows SPDY
			http.Error(w, "no websockets", http.StatusBadRequest)
			return
		}
		if want := "/api/v1/namespaces/tangram-system/pods/gpu-scheduler-0/portforward"; r.URL.Path != want {
			t.Errorf("path %s, want %s", r.URL.Path, want)
		}
		if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
			t.Error(err)
			return
		}
		done := make(chan struct{})
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			if s.Headers().Get(v1.StreamType) != v1.StreamTypeData {
				return nil
			}
			ports <- s.Headers().Get(v1.PortHeader)
			go func() {
				raw, err := net.Dial("tcp", c.Scheduler.Listener.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				go func() { _, _ = io.Copy(raw, s) }()
				_, _ = io.Copy(s, raw)
			}()
			return nil
		})
		if conn == nil {
			return
		}
		go func() { <-conn.CloseChan(); close(done) }()
		<-done
	})
	end := c.Endpoint()
	end.Address, end.Pod = "127.0.0.1:1", "tangram-system/gpu-scheduler-0"
	c.SetEndpoint(end)
	a := client(t, c)
	for range 3 {
		if f, err := fleetOf(t, a); err != nil || f.Nodes.Total != 3 {
			t.Fatalf("%+v, %v", f, err)
		}
	}
	a.Close()
	if port := <-ports; port != "1" {
		t.Errorf("port %s", port)
	}
}

// The handler passes on what a page asks, and nothing that a browser adds.
func TestHandler(t *testing.T) {
	c := asktest.New(t, "")
	c.Answer(query.PathFleet, asktest.Answer{Body: fleet})
	c.Answer(query.PathWhatIf, asktest.Answer{Body: "{}"})
	c.Answer(query.PathWhy, asktest.Answer{Status: 404, Body: `{"status":404,"reason":"NotFound","message":"no pod"}`})
	h := client(t, c).Handler()
	tests := []struct {
		method, target, body string
		want                 int
	}{
		{"GET", "/query/v1/fleet", "", 200},
		{"POST", "/query/v1/whatif?namespace=ns", "kind: Pod", 200},
		{"GET", "/query/v1/why?name=x", "", 404},
		{"GET", "/query/v1/../../api/v1/secrets", "", 404},
		{"GET", "/api/v1/secrets", "", 404},
		{"GET", "/query/v1/whatif", "", 405},
		{"POST", "/query/v1/fleet", "", 405},
		{"DELETE", "/query/v1/fleet", "", 405},
		{"POST", "/query/v1/whatif", strings.Repeat("x", query.MaxBody+1), 413},
		{"GET", "/query/v1/fleet?x=" + strings.Repeat("x", query.MaxQuery), "", 414},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(tt.method, "/", strings.NewReader(tt.body))
		path, params, _ := strings.Cut(tt.target, "?")
		r.URL.Path, r.URL.RawQuery = path, params
		r.Header.Set("Authorization", "Bearer the-visitor's")
		r.Header.Set("Cookie", "a=b")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s %.60s: %d, want %d: %s", tt.method, tt.target, w.Code, tt.want, w.Body)
		}
		if e := (query.Error{}); w.Code >= 400 && (json.Unmarshal(w.Body.Bytes(), &e) != nil || e.Status != w.Code || e.Message == "") {
			t.Errorf("%s %.60s: body %s", tt.method, tt.target, w.Body)
		}
	}
	for _, r := range c.Requests() {
		if r.Token != asktest.Token {
			t.Errorf("%s was asked with token %q", r.URI, r.Token)
		}
	}
	if n := len(c.Requests()); n != 3 {
		t.Errorf("%d requests went on, want 3: %v", n, c.Requests())
	}
	c.Scheduler.Close()
	w := httptest.NewRecorder()
	gone := client(t, c).Handler()
	gone.ServeHTTP(w, httptest.NewRequest("GET", "/query/v1/fleet", nil))
	if w.Code != http.StatusBadGateway {
		t.Errorf("no scheduler: %d %s", w.Code, w.Body)
	}
}

// Without another kubeconfig the local cluster's is used, if it can do no harm.
func TestLocalCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	write := func(t *testing.T, change func(*clientcmdapi.Config)) {
		t.Helper()
		config := clientcmdapi.NewConfig()
		config.Clusters["tangram"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1234"}
		config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte("x"), ClientKeyData: []byte("y")}
		config.Contexts["tangram"] = &clientcmdapi.Context{Cluster: "tangram", AuthInfo: "u"}
		config.CurrentContext = "tangram"
		change(config)
		t.Chdir(t.TempDir())
		if err := clientcmd.WriteToFile(*config, ask.LocalKubeconfig); err != nil {
			t.Fatal(err)
		}
	}
	var o ask.Options
	write(t, func(*clientcmdapi.Config) {})
	if config, err := o.RESTConfig(); err != nil || config.Host != "https://127.0.0.1:1234" {
		t.Errorf("%v, %v", config, err)
	}
	for name, change := range map[string]func(*clientcmdapi.Config){
		"a program": func(c *clientcmdapi.Config) {
			c.AuthInfos["u"].Exec = &clientcmdapi.ExecConfig{Command: "sh", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}
		},
		"another machine": func(c *clientcmdapi.Config) { c.Clusters["tangram"].Server = "https://evil.example.com" },
		"a file":          func(c *clientcmdapi.Config) { c.AuthInfos["u"].TokenFile = "/etc/passwd" },
	} {
		write(t, change)
		if _, err := o.RESTConfig(); err == nil || !strings.Contains(err.Error(), "--kubeconfig if you trust it") {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Chdir(t.TempDir())
	if _, err := o.RESTConfig(); err == nil || !strings.Contains(err.Error(), "tangram up") {
		t.Errorf("without any: %v", err)
	}
}

// A token replaces the other credentials of the kubeconfig.
func TestTokenAlone(t *testing.T) {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte("x"), ClientKeyData: []byte("y")}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	got, err := (&ask.Options{Kubeconfig: file, Token: "theirs"}).RESTConfig()
	if err != nil || got.BearerToken != "theirs" || got.CertData != nil || got.KeyData != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// Impersonation would silently be ignored by the scheduler: it is refused.
func TestImpersonation(t *testing.T) {
	c := asktest.New(t, "")
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.AuthInfos["u"].Impersonate = "grace"
	if err := clientcmd.WriteToFile(*config, c.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	if _, err := ask.New(ask.Options{Kubeconfig: c.Kubeconfig}); err == nil || !strings.Contains(err.Error(), "impersonation") {
		t.Errorf("got %v", err)
	}
}
