package local

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour // renewed at every start
	clockSkew     = time.Hour
)

// authority signs certificates. A cluster has two: one for Kubernetes, one for etcd,
// because a client with a certificate of etcd's authority can read and write
// everything, bypassing the API server and its RBAC.
type authority struct {
	dir  string
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// identity is the subject and the use of a certificate.
type identity struct {
	user   string
	groups []string
	server bool // may serve on the loopback address
	client bool // may authenticate as user
}

// keyPair is a certificate and its key, PEM encoded.
type keyPair struct {
	cert, key []byte
}

// openAuthority loads the authority called name from dir, or makes it. An
// authority that would expire under its next leaf certificate is replaced.
func openAuthority(dir, name string, now time.Time) (*authority, error) {
	a := &authority{dir: dir, name: name}
	err := a.load()
	switch {
	case err == nil && a.cert.NotAfter.After(now.Add(leafLife)):
		return a, nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("load certificate authority %s: %w", a.certPath(), err)
	}
	if err := a.create(now); err != nil {
		return nil, fmt.Errorf("create certificate authority %s: %w", a.certPath(), err)
	}
	return a, nil
}

func (a *authority) certPath() string { return filepath.Join(a.dir, a.name+".crt") }
func (a *authority) keyPath() string  { return filepath.Join(a.dir, a.name+".key") }

func (a *authority) load() error {
	pair, err := tls.LoadX509KeyPair(a.certPath(), a.keyPath())
	if err != nil {
		return err
	}
	var ok bool
	if a.key, ok = pair.PrivateKey.(*ecdsa.PrivateKey); !ok {
		return errors.New("not an ECDSA key")
	}
	a.cert = pair.Leaf
	return nil
}

func (a *authority) create(now time.Time) error {
	pair, err := a.sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "tangram local " + a.name},
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}, now)
	if err != nil {
		return err
	}
	if err := pair.write(a.certPath(), a.keyPath()); err != nil {
		return err
	}
	return a.load()
}

// issue signs a new certificate for id.
func (a *authority) issue(id identity, now time.Time) (keyPair, error) {
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: id.user, Organization: id.groups},
		NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if id.client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if id.server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		template.IPAddresses = []net.IP{net.ParseIP(loopback)}
		// The Service names are for programs that reach the API server as pods do.
		template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	}
	return a.sign(template, now)
}

// sign makes a key and a certificate for it, signed by the authority; by itself if it is an
// authority's.
func (a *authority) sign(template *x509.Certificate, now time.Time) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return keyPair{}, err
	}
	template.NotBefore = now.Add(-clockSkew)
	parent, signer := a.cert, a.key
	if template.IsCA {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign certificate for %s: %w", template.Subject.CommonName, err)
	}
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	return keyPair{cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key: text}, err
}

// issueFiles issues a certificate into two files of the authority's directory.
func (a *authority) issueFiles(name string, id identity, now time.Time) (certPath, keyPath string, err error) {
	pair, err := a.issue(id, now)
	if err != nil {
		return "", "", err
	}
	certPath, keyPath = filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
	return certPath, keyPath, pair.write(certPath, keyPath)
}

func (p keyPair) write(certPath, keyPath string) error {
	if err := os.WriteFile(certPath, p.cert, 0o600); err != nil {
		return err
	}
	return os.WriteFile(keyPath, p.key, 0o600)
}

// openSigningKey returns the path of the key that signs service account tokens,
// made at first use: tokens stay valid over a restart.
func openSigningKey(dir string) (string, error) {
	path := filepath.Join(dir, "service-accounts.key")
	_, _, err := keyutil.LoadOrGenerateKeyFile(path)
	return path, err
}

// Authority is the certificate of the authority that signs what the cluster's servers
// show, PEM encoded.
func (c *Cluster) Authority() []byte { return c.authorityPEM() }

// WriteServingCertificate writes a certificate for a server on loopback and its key into
// a folder, as tls.crt and tls.key.
func (c *Cluster) WriteServingCertificate(folder string) error {
	pair, err := c.authority.issue(identity{user: "tangram-local", server: true}, time.Now())
	if err != nil {
		return err
	}
	return pair.write(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
}
