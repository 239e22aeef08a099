package web

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/api/query"
)

// scheduler is a leader that keeps the last request it saw.
func scheduler(t *testing.T, status int) (*httptest.Server, query.Endpoint, func() *http.Request) {
	t.Helper()
	var last *http.Request
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last = r.Clone(context.Background())
		data, _ := io.ReadAll(r.Body)
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]int{"bytes": len(data)})
	}))
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return s, query.Endpoint{Address: s.Listener.Addr().String(), CA: string(ca), ServerName: "example.com"}, func() *http.Request { return last }
}

func always(e query.Endpoint) func(context.Context) (query.Endpoint, error) {
	return func(context.Context) (query.Endpoint, error) { return e, nil }
}

// TestLeaderPassesOn: the visitor's token and the question go on, nothing else of the
// visitor's does, and of the answer only what browsers need comes back.
func TestLeaderPassesOn(t *testing.T) {
	_, endpoint, last := scheduler(t, 200)
	l := NewLeader(always(endpoint))
	r := answer(t, l, "GET", query.PathWhy+"?namespace=a&name=b", "Authorization", "Bearer x", "Cookie", "secret=1", "X-Remote-User", "admin", "X-Forwarded-For", "1.2.3.4", "Impersonate-User", "root", "Accept-Encoding", "gzip")
	if r.StatusCode != 200 || r.Header.Get("Set-Cookie") != "" || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
	got := last()
	for name := range got.Header {
		switch name {
		case "Authorization", "Accept", "Accept-Encoding", "Content-Type", "User-Agent":
		default:
			t.Errorf("header %s went on", name)
		}
	}
	if got.Header.Get("Authorization") != "Bearer x" || got.URL.RawQuery != "namespace=a&name=b" {
		t.Errorf("passed on as %v %v", got.URL, got.Header)
	}
}

// TestLeaderRefuses: what is no question does not reach the scheduler.
func TestLeaderRefuses(t *testing.T) {
	_, endpoint, last := scheduler(t, 200)
	l := NewLeader(always(endpoint))
	for _, c := range []struct {
		name, method, path string
		body               string
		status             int
		headers            []string
	}{
		{"no token", "GET", query.PathFleet, "", 401, nil},
		{"other path", "GET", "/metrics", "", 404, []string{"Authorization", "Bearer x"}},
		{"path below", "GET", "/query/v1/fleet/x", "", 404, []string{"Authorization", "Bearer x"}},
		{"path above", "GET", "/query/v1/../../metrics", "", 404, []string{"Authorization", "Bearer x"}},
		{"delete", "DELETE", query.PathFleet, "", 405, []string{"Authorization", "Bearer x"}},
		{"post", "POST", query.PathFleet, "", 405, []string{"Authorization", "Bearer x"}},
		{"long parameters", "GET", query.PathFleet + "?x=" + strings.Repeat("y", query.MaxQuery), "", 414, []string{"Authorization", "Bearer x"}},
		{"another site", "GET", query.PathFleet, "", 403, []string{"Authorization", "Bearer x", "Sec-Fetch-Site", "cross-site"}},
		{"large manifest", "POST", query.PathWhatIf, strings.Repeat("y", query.MaxBody+1), 413, []string{"Authorization", "Bearer x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "http://page"+c.path, strings.NewReader(c.body))
			for i := 0; i < len(c.headers); i += 2 {
				r.Header.Set(c.headers[i], c.headers[i+1])
			}
			w := httptest.NewRecorder()
			l.ServeHTTP(w, r)
			var e query.Error
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != c.status || e.Status != c.status || e.Reason == "" {
				t.Errorf("%d %s, want %d", w.Code, w.Body, c.status)
			}
			if got := last(); got != nil {
				t.Errorf("the scheduler was asked %s", got.URL)
			}
		})
	}
}

// TestLeaderUnknownLength: a manifest that does not say how long it is has the same bound.
func TestLeaderUnknownLength(t *testing.T) {
	_, endpoint, last := scheduler(t, 200)
	r := httptest.NewRequest("POST", query.PathWhatIf, io.MultiReader(strings.NewReader(strings.Repeat("y", query.MaxBody)), strings.NewReader("z")))
	r.ContentLength = -1
	r.Header.Set("Authorization", "Bearer x")
	w := httptest.NewRecorder()
	NewLeader(always(endpoint)).ServeHTTP(w, r)
	if w.Code != 413 || last() != nil {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestLeaderChanges: without a leader 503, unreachable 502, and after either the next
// question finds the new leader.
func TestLeaderChanges(t *testing.T) {
	var now query.Endpoint
	fail := errors.New("no scheduler has run yet")
	finds := 0
	l := NewLeader(func(context.Context) (query.Endpoint, error) { finds++; return now, fail })
	ask := func() (int, query.Error) {
		t.Helper()
		r := answer(t, l, "GET", query.PathFleet, "Authorization", "Bearer x")
		var e query.Error
		_ = json.Unmarshal([]byte(body(t, r)), &e)
		return r.StatusCode, e
	}
	if status, e := ask(); status != 503 || e.Reason != "NotLeader" || !strings.Contains(e.Message, "no scheduler has run yet") {
		t.Errorf("without a leader: %d %+v", status, e)
	}
	first, endpoint, _ := scheduler(t, 200)
	now, fail = endpoint, nil
	for range 3 {
		if status, e := ask(); status != 200 {
			t.Fatalf("with a leader: %d %+v", status, e)
		}
	}
	if finds != 2 {
		t.Errorf("the Lease was read %d times, want 2: it is believed for a while", finds)
	}
	first.Close()
	if status, e := ask(); status != 502 || e.Reason != "Unreachable" || strings.Contains(e.Message, "127.0.0.1") {
		t.Errorf("gone: %d %+v", status, e)
	}
	_, now, _ = scheduler(t, 503)
	if status, _ := ask(); status != 503 {
		t.Errorf("the new one, which does not lead: %d", status)
	}
	_, now, _ = scheduler(t, 200)
	if status, e := ask(); status != 200 {
		t.Errorf("the one after: %d %+v", status, e)
	}
}

// TestLeaderIsProven: a server with another certificate or for another name gets no token.
func TestLeaderIsProven(t *testing.T) {
	_, endpoint, last := scheduler(t, 200)
	wrongName := endpoint
	wrongName.ServerName = "other.example"
	noCA := endpoint
	noCA.CA = "nonsense"
	for name, e := range map[string]query.Endpoint{"name": wrongName, "no certificate": noCA, "empty": {}} {
		r := answer(t, NewLeader(always(e)), "GET", query.PathFleet, "Authorization", "Bearer x")
		if r.StatusCode != 502 && r.StatusCode != 503 || last() != nil {
			t.Errorf("%s: %d, asked: %v", name, r.StatusCode, last() != nil)
		}
	}
}

// TestLeaderBusy: more questions at once than there are places are refused.
func TestLeaderBusy(t *testing.T) {
	_, endpoint, _ := scheduler(t, 200)
	l := NewLeader(always(endpoint))
	for range maxPassed {
		if _, ok := enter(l.slots); !ok {
			t.Fatal("no place")
		}
	}
	if r := answer(t, l, "GET", query.PathFleet, "Authorization", "Bearer x"); r.StatusCode != 429 {
		t.Errorf("%d", r.StatusCode)
	}
}
