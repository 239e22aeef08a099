package local

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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
	certPEM, err := os.ReadFile(a.certPath())
	if err != nil {
		return err
	}
	keyPEM, err := os.ReadFile(a.keyPath())
	if err != nil {
		return err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return errors.New("not PEM")
	}
	if a.cert, err = x509.ParseCertificate(certBlock.Bytes); err != nil {
		return err
	}
	a.key, err = x509.ParseECPrivateKey(keyBlock.Bytes)
	return err
}

func (a *authority) create(now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "tangram local " + a.name},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	if template.SerialNumber, err = serial(); err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	a.key = key
	pair, err := encodePair(der, key)
	if err != nil {
		return err
	}
	return pair.write(a.certPath(), a.keyPath())
}

// issue signs a new certificate for id.
func (a *authority) issue(id identity, now time.Time) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: id.user, Organization: id.groups},
		NotBefore: now.Add(-clockSkew),
		NotAfter:  now.Add(leafLife),
		KeyUsage:  x509.KeyUsageDigitalSignature,
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
	if template.SerialNumber, err = serial(); err != nil {
		return keyPair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign certificate for %s: %w", id.user, err)
	}
	return encodePair(der, key)
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

func encodePair(der []byte, key *ecdsa.PrivateKey) (keyPair, error) {
	keyPEM, err := encodeKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key: keyPEM}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// openSigningKey returns the path of the key that signs service account tokens,
// made at first use: tokens stay valid over a restart.
func openSigningKey(dir string) (string, error) {
	path := filepath.Join(dir, "service-accounts.key")
	if _, err := os.Stat(path); err == nil || !errors.Is(err, os.ErrNotExist) {
		return path, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	data, err := encodeKey(key)
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, data, 0o600)
}

func serial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
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
