package extender

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs certificates of tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue signs a certificate for a name and a use, valid until a time.
func (a *authority) issue(t *testing.T, name string, use x509.ExtKeyUsage, until time.Time) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost", name + ".dns"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

// TestClientCertificates: 401 without a valid client certificate, 403 for another name; the
// health check is open. Files that change count for new connections.
func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	later, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	servers, clients, strangers := newAuthority(t), newAuthority(t), newAuthority(t)
	cert, key := servers.issue(t, "server", x509.ExtKeyUsageServerAuth, later)
	a := &access{cert: file("tls.crt", cert), key: file("tls.key", key), clientCA: file("ca.crt", clients.pem), names: []string{"kube-scheduler", "second.dns"}}
	server := httptest.NewUnstartedServer((&Server{}).Handler(a))
	var err error
	if server.TLS, err = a.config(); err != nil {
		t.Fatal(err)
	}
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(servers.cert)
	ask := func(method, path string, by *authority, name string, use x509.ExtKeyUsage, until time.Time) (int, string) {
		t.Helper()
		config := &tls.Config{RootCAs: roots, ServerName: "localhost"}
		if by != nil {
			cert, key := by.issue(t, name, use, until)
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		transport := &http.Transport{TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader("{"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, strings.TrimSpace(string(text))
	}
	const client, reached = x509.ExtKeyUsageClientAuth, "request body: unexpected EOF"
	for name, tt := range map[string]struct {
		by    *authority
		cn    string
		use   x509.ExtKeyUsage
		until time.Time
		code  int
		text  string
	}{
		"none":                {nil, "", client, later, 401, "client certificate: missing"},
		"another authority":   {strangers, "kube-scheduler", client, later, 401, "signed by unknown authority"},
		"expired":             {clients, "kube-scheduler", client, past, 401, "expired"},
		"a server's":          {clients, "kube-scheduler", x509.ExtKeyUsageServerAuth, later, 401, "incompatible key usage"},
		"another name":        {clients, "tenant", client, later, 403, "client certificate: tenant, localhost, tenant.dns is not among the allowed names"},
		"allowed":             {clients, "kube-scheduler", client, later, 400, reached},
		"allowed by DNS name": {clients, "second", client, later, 400, reached},
	} {
		for _, verb := range []string{"/filter", "/prioritize", "/bind", "/preempt"} {
			code, text := ask(http.MethodPost, verb, tt.by, tt.cn, tt.use, tt.until)
			if code != tt.code || !strings.Contains(text, tt.text) {
				t.Errorf("%s %s: %d %s, want %d %s", name, verb, code, text, tt.code, tt.text)
			}
		}
	}
	if code, text := ask(http.MethodGet, "/healthz", nil, "", client, later); code != 200 || text != "ok" {
		t.Errorf("health check: %d %s", code, text)
	}
	file("ca.crt", strangers.pem)
	if code, _ := ask(http.MethodPost, "/filter", clients, "kube-scheduler", client, later); code != 401 {
		t.Errorf("the old authority after it was replaced: %d", code)
	}
	if code, _ := ask(http.MethodPost, "/filter", strangers, "kube-scheduler", client, later); code != 400 {
		t.Errorf("the new authority: %d", code)
	}
}

// TestFlags: what contradicts each other, or would let anybody bind pods, is refused at the
// start, with the name of the flag or field.
func TestFlags(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for args, want := range map[string]string{
		"--listen=8888":                    "--listen: address 8888: missing port",
		"--listen=0.0.0.0:8888":            "--listen: 0.0.0.0:8888 is not on loopback, which needs --tls-cert-file and --client-ca-file",
		"--listen=:8888 --tls-cert-file=a": "--tls-cert-file and --tls-private-key-file: both or none",
		"--listen=:8888 --tls-cert-file=a --tls-private-key-file=b": "is not on loopback, which needs --tls-cert-file and --client-ca-file",
		"--client-ca-file=c":                                            "--client-ca-file: needs --tls-cert-file",
		"--client-allowed-names=kube-scheduler":                         "--client-allowed-names: needs --client-ca-file",
		"--config=" + file("w.yaml", "weights: {power: -1}"):            "--config: weights.power: -1 is not between",
		"--config=" + file("u.yaml", "weight: {}"):                      `--config: error unmarshaling JSON: while decoding JSON: json: unknown field "weight"`,
		"--config=" + file("t.yaml", "tenants: {namespaces: {a: 500}}"): "--config: tenants.namespaces[a]: 500 is not between 1 and 100",
		"--config=" + filepath.Join(dir, "none.yaml"):                   "--config: open ",
	} {
		cmd := NewCommand()
		cmd.SetArgs(strings.Fields(args))
		cmd.SilenceErrors = true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
	bad := &access{cert: file("x.crt", "x"), key: file("x.key", "x")}
	if _, err := bad.config(); err == nil || !strings.HasPrefix(err.Error(), "--tls-cert-file: ") {
		t.Errorf("no certificate: %v", err)
	}
}
