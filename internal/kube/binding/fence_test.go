package binding

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// gate is a fence that lets the first few questions pass.
type gate struct {
	left  atomic.Int64
	asked atomic.Int64
}

func (g *gate) may() error {
	g.asked.Add(1)
	if g.left.Add(-1) < 0 {
		return fmt.Errorf("%w: the lease is old", ErrFenced)
	}
	return nil
}

// TestFencedClient: however late the lease is found to be lost on a request's way, over
// HTTP/1 and HTTP/2, the API server gets no whole Binding; reads go on.
func TestFencedClient(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %v", http2), func(t *testing.T) {
			var whole, gets atomic.Int64
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				if r.Method == http.MethodGet {
					gets.Add(1)
					_, _ = io.WriteString(rw, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}`)
					return
				}
				if want := map[bool]int{false: 1, true: 2}[http2]; r.ProtoMajor != want {
					t.Errorf("HTTP/%d", r.ProtoMajor)
				}
				if _, err := io.ReadAll(r.Body); err == nil {
					whole.Add(1)
				}
				_, _ = io.WriteString(rw, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
			}))
			server.EnableHTTP2 = http2
			server.StartTLS()
			defer server.Close()
			config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
			if !http2 {
				config.NextProtos = []string{"http/1.1"}
			}
			g := &gate{}
			client, err := NewFencedClient(config, g.may)
			if err != nil {
				t.Fatal(err)
			}
			bind := func() error {
				return client.CoreV1().Pods("ns").Bind(t.Context(), &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
			}
			g.left.Store(1 << 30)
			if err := bind(); err != nil || whole.Load() != 1 {
				t.Fatalf("%v, %d Bindings", err, whole.Load())
			}
			questions := g.asked.Load()
			if questions < 2 {
				t.Fatalf("asked %d times: not when the body is read", questions)
			}
			for pass := range questions {
				g.left.Store(pass)
				if err := bind(); !errors.Is(err, ErrFenced) {
					t.Errorf("lost at question %d of %d: %v", pass+1, questions, err)
				}
				g.left.Store(0)
				if _, err := client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{}); err != nil {
					t.Errorf("a read is stopped: %v", err)
				}
			}
			if whole.Load() != 1 || gets.Load() != questions {
				t.Errorf("%d Bindings got out, %d reads", whole.Load(), gets.Load())
			}
		})
	}
}

// TestFencedClosesBody: a transport that refuses a request closes its body, as the contract
// of http.RoundTripper says.
func TestFencedClosesBody(t *testing.T) {
	body := &closing{Reader: strings.NewReader("x")}
	r, err := http.NewRequest(http.MethodPost, "http://unused.invalid", body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (fenced{may: (&gate{}).may}).RoundTrip(r); !errors.Is(err, ErrFenced) || !body.closed {
		t.Errorf("%v, closed %v", err, body.closed)
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }
