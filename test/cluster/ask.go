package cluster

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/test/await"
)

// Asker asks a server over HTTP with the credentials of one caller.
type Asker struct {
	Client *http.Client
	// Base is where the server is: https://127.0.0.1:1234.
	Base string
	// Headers are sent along.
	Headers map[string]string
}

// Answer is what a server said.
type Answer struct {
	Status int
	Text   string
	Header http.Header
}

// Do asks and returns the answer, unpacked if the caller asked for gzip.
func (a Asker) Do(t testing.TB, method, path string, body io.Reader) Answer {
	t.Helper()
	answer, err := a.Try(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// Try is Do for a server that may not be there.
func (a Asker) Try(ctx context.Context, method, path string, body io.Reader) (Answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, a.Base+path, body)
	if err != nil {
		return Answer{}, err
	}
	for k, v := range a.Headers {
		r.Header.Set(k, v)
	}
	answer, err := a.Client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.Header.Get("Content-Encoding") == "gzip" {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
			text, err = io.ReadAll(z)
		}
	}
	return Answer{answer.StatusCode, string(text), answer.Header}, err
}

// Bearer is the asker with a token; "" for none.
func (a Asker) Bearer(token string) Asker {
	a.Headers = map[string]string{}
	if token != "" {
		a.Headers["Authorization"] = "Bearer " + token
	}
	return a
}

// Ask asks for an answer that must come, and decodes it.
func Ask[A any](t testing.TB, a Asker, path string) *A {
	t.Helper()
	answer := a.Do(t, http.MethodGet, path, nil)
	if answer.Status != http.StatusOK {
		t.Fatalf("%s: %d: %s", path, answer.Status, answer.Text)
	}
	return Decode[A](t, answer.Text)
}

// Decode reads JSON.
func Decode[A any](t testing.TB, text string) *A {
	t.Helper()
	out := new(A)
	if err := json.Unmarshal([]byte(text), out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}

// HTTPClient trusts the certificates of a PEM file for a server name, or for any when it is
// empty, and has at most one certificate of its own. Without a PEM file it trusts all.
func HTTPClient(authority []byte, serverName string, own ...tls.Certificate) *http.Client {
	settings := &tls.Config{ServerName: serverName, Certificates: own, InsecureSkipVerify: authority == nil}
	if authority != nil {
		settings.RootCAs = x509.NewCertPool()
		settings.RootCAs.AppendCertsFromPEM(authority)
	}
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: settings}}
}

// AskerFor asks where a Lease says that a scheduler answers, and trusts what the Lease says
// and nothing else.
func AskerFor(e query.Endpoint, own ...tls.Certificate) Asker {
	return Asker{Client: HTTPClient([]byte(e.CA), e.ServerName, own...), Base: "https://" + e.Address}
}

// Admin asks a scheduler as the administrator.
func (w *World) Admin(lease string) Asker {
	w.T.Helper()
	admin := w.RESTConfig()
	pair, err := tls.X509KeyPair(admin.CertData, admin.KeyData)
	w.Must(err)
	return AskerFor(w.Endpoint(lease, nil), pair)
}

// Endpoint waits until a Lease of kube-system says where a scheduler answers, and accept
// takes it; nil: any.
func (w *World) Endpoint(lease string, accept func(holder string, e query.Endpoint) bool) (e query.Endpoint) {
	w.T.Helper()
	await.Complete(w.T, "the Lease "+lease+" says where to ask", startLimit, func() string {
		l, err := w.Client.CoordinationV1().Leases("kube-system").Get(context.Background(), lease, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		text := l.Annotations[query.AnnotationEndpoint]
		if text == "" {
			return "no annotation"
		}
		e = query.Endpoint{}
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			w.T.Fatal(err)
		}
		if accept == nil || accept(holderOf(l), e) {
			return ""
		}
		return text
	})
	return e
}

func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// Token is a token of a service account, good for an hour.
func (w *World) Token(namespace, account string) string {
	w.T.Helper()
	seconds := int64(3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := w.Client.CoreV1().ServiceAccounts(namespace).CreateToken(context.Background(), account, request, metav1.CreateOptions{})
	w.Must(err)
	return answer.Status.Token
}
