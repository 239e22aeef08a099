package local

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func parseCert(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatal("not PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestAuthorityIsKeptUntilItWouldExpire(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	first, err := openAuthority(dir, "ca", now)
	if err != nil {
		t.Fatal(err)
	}
	same, err := openAuthority(dir, "ca", now.Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if !first.cert.Equal(same.cert) || !first.key.Equal(same.key) {
		t.Error("the authority changed at the second start")
	}
	renewed, err := openAuthority(dir, "ca", now.Add(authorityLife-leafLife+time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if first.cert.Equal(renewed.cert) {
		t.Error("an authority that ends before its next leaf was kept")
	}
	if err := os.WriteFile(first.keyPath(), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openAuthority(dir, "ca", now); err == nil {
		t.Error("a broken key was accepted or replaced in silence")
	}
}

func TestCertificates(t *testing.T) {
	now := time.Now()
	ca, err := openAuthority(t.TempDir(), "ca", now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := openAuthority(t.TempDir(), "etcd-ca", now)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)

	server, err := ca.issue(identity{user: "server", server: true}, now)
	if err != nil {
		t.Fatal(err)
	}
	cert := parseCert(t, server.cert)
	for _, host := range []string{loopback, "localhost", "kubernetes.default.svc"} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("server certificate for %s: %v", host, err)
		}
	}
	asClient := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := cert.Verify(asClient); err == nil {
		t.Error("the server's certificate would do as a client's")
	}

	client, err := ca.issue(identity{user: "system:user", groups: []string{"g1", "g2"}, client: true}, now)
	if err != nil {
		t.Fatal(err)
	}
	cert = parseCert(t, client.cert)
	if _, err := cert.Verify(asClient); err != nil {
		t.Error(err)
	}
	slices.Sort(cert.Subject.Organization)
	if cert.Subject.CommonName != "system:user" || !slices.Equal(cert.Subject.Organization, []string{"g1", "g2"}) {
		t.Errorf("identity = %v", cert.Subject)
	}
	if _, err := tls.X509KeyPair(client.cert, client.key); err != nil {
		t.Error(err)
	}

	foreign, err := other.issue(identity{user: "system:user", client: true}, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseCert(t, foreign.cert).Verify(asClient); err == nil {
		t.Error("one authority accepts the other's certificates")
	}
}

func TestKeysAreForTheirOwnerOnly(t *testing.T) {
	c, _ := openTest(t)
	pki := filepath.Join(c.dir, "pki")
	var err error
	if c.authority, err = openAuthority(pki, "ca", time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := openSigningKey(pki); err != nil {
		t.Fatal(err)
	}
	c.server = "https://127.0.0.1:1"
	if err := c.useAdmin(time.Now()); err != nil {
		t.Fatal(err)
	}
	colon, err := c.KubeconfigFor("a:b", "group")
	if err != nil {
		t.Fatal(err)
	}
	dash, err := c.KubeconfigFor("a-b", "group")
	if err != nil {
		t.Fatal(err)
	}
	if colon == dash {
		t.Error("two users share a kubeconfig")
	}
	config, err := clientcmd.BuildConfigFromFlags("", colon)
	if err != nil {
		t.Fatal(err)
	}
	if got := parseCert(t, config.CertData).Subject.CommonName; got != "a:b" {
		t.Errorf("user = %q", got)
	}
	if c.RESTConfig().QPS >= 0 {
		t.Error("the administrator's client is rate limited")
	}
	err = filepath.WalkDir(c.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is readable by others: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
