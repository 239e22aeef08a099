package query

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
	kubequery "github.com/tangram-dev/tangram/internal/kube/query"
	"github.com/tangram-dev/tangram/test/cluster"
)

// every is the path of every question.
var every = func() (out []string) {
	for _, q := range kubequery.Table() {
		out = append(out, q.Path)
	}
	return out
}()

// TestWhoMayAsk: no token, a bad one and one without the right see nothing, whatever they
// ask.
func TestWhoMayAsk(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	stranger := w.as("ops/stranger")
	for _, path := range every {
		if e := unanswered(t, w.bearer(""), path, http.StatusUnauthorized); e.Reason != "Unauthorized" {
			t.Errorf("%s without a token: %+v", path, e)
		}
		unanswered(t, w.bearer("not.a.token"), path, http.StatusUnauthorized)
	}
	for _, path := range append([]string{"/", apiquery.Prefix + "secrets"}, every...) {
		if e := unanswered(t, stranger, path, http.StatusForbidden); e.Reason != "Forbidden" {
			t.Errorf("%s without the right: %+v", path, e)
		}
	}
}

// TestClientCertificates: certificates of the cluster's authority are as good as tokens,
// others are not.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	of := func(user string) cluster.Asker {
		config, err := w.As(user)
		w.Must(err)
		pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
		w.Must(err)
		return cluster.AskerFor(w.endpoint, pair)
	}
	// The authorities are read from the API server when the scheduler starts.
	carol := of("carol")
	w.Eventually("carol's certificate", func() (bool, string) {
		a := carol.Do(t, http.MethodGet, apiquery.PathFleet, nil)
		return a.Status == http.StatusOK, a.Text
	})
	unanswered(t, of("mallory"), apiquery.PathFleet, http.StatusForbidden)
	unanswered(t, cluster.AskerFor(w.endpoint, forged(t, "carol")), apiquery.PathFleet, http.StatusUnauthorized)
}

// forged is a certificate that no authority signed.
func forged(t *testing.T, name string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestStandby: a replica that does not lead says so to callers that may ask.
func TestStandby(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	viewer, anonymous, leads := w.as("ops/viewer"), w.bearer(""), 0
	for _, port := range w.ports {
		base := "https://127.0.0.1:" + strconv.Itoa(port)
		if strings.HasSuffix(w.endpoint.Address, ":"+strconv.Itoa(port)) {
			leads++
			continue
		}
		viewer.Base, anonymous.Base = base, base
		if e := unanswered(t, viewer, apiquery.PathFleet, http.StatusServiceUnavailable); e.Reason != "NotLeader" {
			t.Errorf("%+v, want NotLeader", e)
		}
		unanswered(t, anonymous, apiquery.PathFleet, http.StatusUnauthorized)
	}
	if leads != 1 {
		t.Errorf("%d of %v lead, want 1: the Lease says %s", leads, w.ports, w.endpoint.Address)
	}
}

// TestMalformed: what cannot be read is refused, and the field is named.
func TestMalformed(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	viewer := w.as("ops/viewer")
	long := strings.Repeat("x", apiquery.MaxQuery)
	for _, c := range []struct {
		what, method, path string
		body               string
		status             int
		field              string
	}{
		{"unknown parameter", "GET", apiquery.PathFleet + "?bogus=1", "", 400, "bogus"},
		{"parameter of another question", "GET", apiquery.PathQueues + "?since=1", "", 400, "since"},
		{"long unknown parameter", "GET", apiquery.PathFleet + "?" + long[:200] + "=1", "", 400, long[:64] + "..."},
		{"parameter twice", "GET", apiquery.PathNodes + "?since=1&since=2", "", 400, "since"},
		{"no number", "GET", apiquery.PathNodes + "?since=yesterday", "", 400, "since"},
		{"negative number", "GET", apiquery.PathTimeline + "?since=-1", "", 400, "since"},
		{"number beyond 64 bits", "GET", apiquery.PathTimeline + "?since=99999999999999999999", "", 400, "since"},
		{"limit beyond the bound", "GET", apiquery.PathGangs + "?limit=10001", "", 400, "limit"},
		{"limit of nothing", "GET", apiquery.PathGangs + "?limit=0", "", 400, "limit"},
		{"unknown phase", "GET", apiquery.PathGangs + "?phase=Asleep", "", 400, "phase"},
		{"name without namespace", "GET", apiquery.PathGangs + "?name=x", "", 400, "namespace"},
		{"place that no answer gave", "GET", apiquery.PathGangs + "?continue=AAAA", "", 400, "continue"},
		{"bad escape", "GET", apiquery.PathGangs + "?name=%zz", "", 400, "query"},
		{"semicolon", "GET", apiquery.PathGangs + "?a;b", "", 400, "query"},
		{"parameters too long", "GET", apiquery.PathGangs + "?name=" + long, "", 414, "query"},
		{"body of a GET", "GET", apiquery.PathFleet, "{}", 400, "body"},
		{"wrong method", "POST", apiquery.PathFleet, "", 405, ""},
		{"delete", "DELETE", apiquery.PathGangs, "", 405, ""},
		{"path with dots", "GET", apiquery.Prefix + "../v1/fleet", "", 403, ""},
		{"large manifest", "POST", apiquery.PathWhatIf, strings.Repeat(" ", apiquery.MaxBody+1), 413, "body"},
		{"path beyond the right", "GET", "/metrics", "", 403, ""},
		{"unknown queue", "GET", apiquery.PathHistory + "?queue=nowhere", "", 404, ""},
	} {
		if e := refused(t, viewer, c.method, c.path, strings.NewReader(c.body), c.status); e.Field != c.field {
			t.Errorf("%s: field %q, want %q: %s", c.what, e.Field, c.field, e.Message)
		}
	}
	// A caller that may get all paths learns which there are.
	unanswered(t, w.as("ops/operator"), apiquery.Prefix+"secrets", http.StatusNotFound)
	large := w.as("ops/viewer")
	large.Headers["X-Large"] = strings.Repeat("x", 64<<10)
	if a := large.Do(t, http.MethodGet, apiquery.PathFleet, nil); a.Status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("64 KiB of headers: %d", a.Status)
	}
	// The server still answers.
	cluster.Ask[apiquery.Fleet](t, viewer, apiquery.PathFleet)
}

// TestGzip: large answers are compressed for callers that accept it.
func TestGzip(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	operator := w.as("ops/operator")
	operator.Headers["Accept-Encoding"] = "gzip"
	a := operator.Do(t, http.MethodGet, apiquery.PathNodes, nil)
	if a.Header.Get("Content-Encoding") != "gzip" || !strings.Contains(a.Text, `"devices"`) {
		t.Errorf("encoding %q: %.100s", a.Header.Get("Content-Encoding"), a.Text)
	}
	operator.Headers["Accept-Encoding"] = "identity"
	if a := operator.Do(t, http.MethodGet, apiquery.PathNodes, nil); a.Header.Get("Content-Encoding") != "" {
		t.Errorf("compressed for a caller that cannot read it: %q", a.Header.Get("Content-Encoding"))
	}
}
