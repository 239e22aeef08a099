package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// gate is an API server: tokens are users' names, and rights are listed.
type gate struct {
	// lists are the rights to list: "user pods namespace", "user nodes ".
	lists map[string]bool
	// forbidden users may get no path; down: the API server cannot be asked what users may
	// list.
	forbidden map[string]bool
	down      bool
	asked     atomic.Int64
}

func (g *gate) Who(r *http.Request) user.Info {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || name == "" {
		return nil
	}
	return &user.DefaultInfo{Name: name}
}

func (g *gate) MayGet(_ context.Context, who user.Info, _ string) (bool, string, error) {
	return !g.forbidden[who.GetName()], "", nil
}

func (g *gate) MayList(_ context.Context, who user.Info, _, resource, namespace string) (bool, error) {
	g.asked.Add(1)
	if g.down {
		return false, errors.New("no connection")
	}
	return g.lists[fmt.Sprintf("%s %s %s", who.GetName(), resource, namespace)], nil
}

// serve returns a server with one more question, /query/v1/test.
func serve(t *testing.T, g *gate, o Options, q *Question) *httptest.Server {
	t.Helper()
	o.Access = g
	s := New(o)
	if q != nil {
		q.Path = "/query/v1/test"
		s.table[q.Path] = q
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	return server
}

// ask returns the status and the error, if the answer is one.
func ask(t *testing.T, s *httptest.Server, method, path, token string, body io.Reader) (int, apiquery.Error, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var wrong apiquery.Error
	if answer.StatusCode != http.StatusOK {
		if err := json.Unmarshal(text, &wrong); err != nil {
			t.Fatalf("%d %s: %v", answer.StatusCode, text, err)
		}
	}
	return answer.StatusCode, wrong, string(text)
}

func TestOrderOfChecks(t *testing.T) {
	leads := false
	g := &gate{forbidden: map[string]bool{"eve": true}}
	question := &Question{Method: http.MethodPost, Params: []string{"n"}, Answer: func(_ context.Context, c Caller, r *Request) (any, *apiquery.Error) {
		n, wrong := r.Uint("n", 7, 10)
		if wrong != nil {
			return nil, wrong
		}
		return map[string]any{"n": n, "body": len(r.Body), "user": c.User()}, nil
	}}
	s := serve(t, g, Options{Leads: func() bool { return leads }}, question)
	for _, c := range []struct {
		what, method, path, token, body string
		leads                           bool
		status                          int
		reason, field                   string
	}{
		{"no token, even of a standby", "POST", "/query/v1/test", "", "", false, 401, ReasonUnauthorized, ""},
		{"no right, even of a standby", "POST", "/query/v1/test", "eve", "", false, 403, ReasonForbidden, ""},
		{"no right to what is not there", "GET", "/query/v1/none", "eve", "", true, 403, ReasonForbidden, ""},
		{"no such path", "GET", "/query/v1/none", "bob", "", true, 404, ReasonNotFound, ""},
		{"method", "GET", "/query/v1/test", "bob", "", true, 405, ReasonMethod, ""},
		{"standby", "POST", "/query/v1/test", "bob", "", false, 503, ReasonNotLeader, ""},
		{"body", "POST", "/query/v1/test", "bob", strings.Repeat("x", apiquery.MaxBody+1), true, 413, ReasonTooLarge, "body"},
		{"largest body", "POST", "/query/v1/test", "bob", strings.Repeat("x", apiquery.MaxBody), true, 200, "", ""},
		{"query", "POST", "/query/v1/test?n=" + strings.Repeat("1", apiquery.MaxQuery), "bob", "", true, 414, ReasonTooLarge, "query"},
		{"number", "POST", "/query/v1/test?n=11", "bob", "", true, 400, ReasonInvalid, "n"},
		{"parameter", "POST", "/query/v1/test?m=1", "bob", "", true, 400, ReasonInvalid, "m"},
		{"twice", "POST", "/query/v1/test?n=1&n=1", "bob", "", true, 400, ReasonInvalid, "n"},
		{"good", "POST", "/query/v1/test?n=3", "bob", "x", true, 200, "", ""},
	} {
		leads = c.leads
		status, wrong, text := ask(t, s, c.method, c.path, c.token, strings.NewReader(c.body))
		if status != c.status || wrong.Reason != c.reason || wrong.Field != c.field {
			t.Errorf("%s: %d %s", c.what, status, text)
		}
		if c.what == "good" && text != `{"body":1,"n":3,"user":"bob"}`+"\n" {
			t.Errorf("answer: %s", text)
		}
	}
}

// TestPanics: a question that panics is answered, and the next one as well.
func TestPanics(t *testing.T) {
	s := serve(t, &gate{}, Options{}, &Question{Method: http.MethodGet, Answer: func(context.Context, Caller, *Request) (any, *apiquery.Error) { panic("oops") }})
	for range 2 * DefaultLimits().Running {
		if status, wrong, text := ask(t, s, "GET", "/query/v1/test", "bob", nil); status != 500 || wrong.Reason != ReasonInternal || strings.Contains(text, "oops") {
			t.Fatalf("%d %s", status, text)
		}
	}
	// What cannot be written as JSON is a mistake here, too.
	s = serve(t, &gate{}, Options{}, &Question{Method: http.MethodGet, Answer: func(context.Context, Caller, *Request) (any, *apiquery.Error) { return func() {}, nil }})
	if status, _, text := ask(t, s, "GET", "/query/v1/test", "bob", nil); status != 500 {
		t.Fatalf("%d %s", status, text)
	}
}

// TestAPIServerDown: where the API server cannot be asked what a caller may list, the
// question fails: nothing is shown, and nothing counts as hidden that is not.
func TestAPIServerDown(t *testing.T) {
	s := serve(t, &gate{down: true}, Options{}, &Question{Method: http.MethodGet, Answer: func(_ context.Context, c Caller, _ *Request) (any, *apiquery.Error) {
		return map[string]bool{"may": c.MayListPods("a") || c.MayListNodes() || c.MayListQueues()}, nil
	}})
	if status, wrong, text := ask(t, s, "GET", "/query/v1/test", "bob", nil); status != 503 || wrong.Reason != ReasonUnavailable {
		t.Fatalf("%d %s", status, text)
	}
}

// TestTimeout: an answer that takes too long is not waited for.
func TestTimeout(t *testing.T) {
	limits := DefaultLimits()
	limits.Timeout = 20 * time.Millisecond
	s := serve(t, &gate{}, Options{Limits: limits}, &Question{Method: http.MethodGet, Answer: func(ctx context.Context, _ Caller, _ *Request) (any, *apiquery.Error) {
		<-ctx.Done()
		return "late", nil
	}})
	if status, wrong, text := ask(t, s, "GET", "/query/v1/test", "bob", nil); status != 504 || wrong.Reason != ReasonTimeout {
		t.Fatalf("%d %s", status, text)
	}
}

// TestCallerAsksOnce: each right is asked for once in a question, many at once, and none in
// a namespace for who may list all.
func TestCallerAsksOnce(t *testing.T) {
	g := &gate{lists: map[string]bool{"bob pods a": true, "root pods ": true}}
	bob := newCaller(t.Context(), &user.DefaultInfo{Name: "bob"}, g)
	namespaces := []string{"a"}
	for i := range 100 {
		namespaces = append(namespaces, fmt.Sprint("n", i))
	}
	bob.prefetch(namespaces)
	if n := g.asked.Load(); n != 102 {
		t.Errorf("asked %d times, want 102", n)
	}
	if !bob.MayListPods("a") || bob.MayListPods("n1") || g.asked.Load() != 102 {
		t.Errorf("a %v, n1 %v, asked %d times", bob.MayListPods("a"), bob.MayListPods("n1"), g.asked.Load())
	}
	g.asked.Store(0)
	root := newCaller(t.Context(), &user.DefaultInfo{Name: "root"}, g)
	root.prefetch(namespaces)
	if !root.MayListPods("n7") || g.asked.Load() != 1 {
		t.Errorf("asked %d times, want once", g.asked.Load())
	}
}

func TestAcceptsGzip(t *testing.T) {
	for header, want := range map[string]bool{"": false, "gzip": true, "br, gzip;q=0.5": true, "gzip;q=0": false, "identity": false, "gzipped": false} {
		if got := acceptsGzip(header); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
}
