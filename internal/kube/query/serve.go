package query

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/klog/v2"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/endpoint"
)

const serverName = "gpu-scheduler-query" // the name in a certificate that is made at the start

// Port is where questions are asked.
type Port struct {
	// Listen is the address: host:port. Advertise is the host or host:port that callers are
	// told; empty: Listen's, or one of this host's where Listen has none.
	Listen, Advertise string
	Cert, Key         string // files; both empty: a certificate is made at the start
	Pod               string // this process' namespace/name; empty outside a cluster

	listener net.Listener
	mu       sync.Mutex
	serving  *tls.Certificate
	pem      []byte // of serving
	read     time.Time
}

// Open listens, and loads or makes the certificate. After it, Endpoint is known.
func (p *Port) Open() (err error) {
	if p.Cert == "" {
		own, err := endpoint.SelfSigned(serverName)
		if err != nil {
			return fmt.Errorf("a certificate for --query-listen: %w", err)
		}
		p.serving, p.pem = &own, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})
	} else if err := p.load(); err != nil {
		return fmt.Errorf("a certificate for --query-listen: %w", err)
	}
	listener, err := net.Listen("tcp", p.Listen)
	if err != nil {
		return fmt.Errorf("--query-listen: %w", err)
	}
	p.listener = listener
	return nil
}

// Opened says whether Open has succeeded.
func (p *Port) Opened() bool { return p.listener != nil }

// load reads the certificate's files.
func (p *Port) load() error {
	chain, err := os.ReadFile(p.Cert)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(p.Key)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return err
	}
	p.serving, p.pem = &pair, chain
	return nil
}

const reloadEvery = time.Minute // how often files of a certificate are read again: they are renewed

// certificate is what to serve with now. Files that cannot be read leave what was.
func (p *Port) certificate() *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Cert != "" && time.Since(p.read) > reloadEvery {
		p.read = time.Now()
		if err := p.load(); err != nil {
			klog.Background().Error(err, "The certificate of the query port cannot be read again")
		}
	}
	return p.serving
}

// Endpoint is what callers are told about this port.
func (p *Port) Endpoint(holder string) apiquery.Endpoint {
	leaf := p.certificate()
	p.mu.Lock()
	defer p.mu.Unlock()
	e := apiquery.Endpoint{Address: p.address(), CA: string(bytes.TrimSpace(p.pem)) + "\n", Pod: p.Pod, Holder: holder}
	if c, err := x509.ParseCertificate(leaf.Certificate[0]); err == nil {
		switch {
		case len(c.DNSNames) > 0:
			e.ServerName = c.DNSNames[0]
		case len(c.IPAddresses) > 0:
			e.ServerName = c.IPAddresses[0].String()
		}
	}
	return e
}

// address is host:port for callers.
func (p *Port) address() string {
	bound, port, err := net.SplitHostPort(p.listener.Addr().String())
	if err != nil {
		return p.listener.Addr().String()
	}
	if _, _, err := net.SplitHostPort(p.Advertise); err == nil {
		return p.Advertise
	}
	if p.Advertise != "" {
		return net.JoinHostPort(p.Advertise, port)
	}
	if ip := net.ParseIP(bound); ip != nil && ip.IsUnspecified() {
		bound = "127.0.0.1"
		if own, err := utilnet.ChooseHostInterface(); err == nil {
			bound = own.String()
		}
	}
	return net.JoinHostPort(bound, port)
}

// Bounds of connections: who sends or reads slowly is cut off.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 2 * time.Minute
	idleTimeout   = 2 * time.Minute
	maxHeader     = 32 << 10
	// maxConnections is how many callers may be connected, see bounded. Each costs the
	// scheduler memory and a file, whether or not it may ask anything.
	maxConnections = 1000
	maxStreams     = 16 // how many requests one connection may have open at once
)

// bounded is a listener with a bound on open connections. Who opens more than there may be
// does not keep others out: then a connection is closed, the oldest of the address that has
// the most. A question takes milliseconds, so its connection is seldom the oldest; callers
// ask again on a new one.
type bounded struct {
	net.Listener
	most int

	mu    sync.Mutex
	total int
	open  map[string][]*counted // by address, the oldest first
}

func newBounded(l net.Listener, most int) *bounded {
	return &bounded{Listener: l, most: most, open: map[string][]*counted{}}
}

// Accept takes a connection, and closes another where there are too many.
func (b *bounded) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	n := &counted{Conn: c, of: b, address: c.RemoteAddr().String()}
	if host, _, err := net.SplitHostPort(n.address); err == nil {
		n.address = host
	}
	if surplus := b.add(n); surplus != nil {
		_ = surplus.Close()
	}
	return n, nil
}

// add notes a connection, and returns the one that has to go for it, if any.
func (b *bounded) add(n *counted) *counted {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[n.address] = append(b.open[n.address], n)
	if b.total++; b.total <= b.most {
		return nil
	}
	heaviest := n.address // also where others have as many: who comes makes room
	for _, address := range slices.Sorted(maps.Keys(b.open)) {
		if len(b.open[address]) > len(b.open[heaviest]) {
			heaviest = address
		}
	}
	return b.open[heaviest][0]
}

func (b *bounded) remove(n *counted) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.open[n.address]
	if i := slices.Index(list, n); i >= 0 {
		b.total--
		if list = slices.Delete(list, i, i+1); len(list) == 0 {
			delete(b.open, n.address)
		} else {
			b.open[n.address] = list
		}
	}
}

// counted is a connection that makes room when it is closed.
type counted struct {
	net.Conn
	of      *bounded
	address string
}

// Close closes the connection, once or again.
func (c *counted) Close() error {
	c.of.remove(c)
	return c.Conn.Close()
}

// Serve answers until the context ends; then it returns nil.
func (p *Port) Serve(ctx context.Context, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			// A certificate is asked for and checked with the request (access.Guard): who
			// brings a token needs none.
			ClientAuth:     tls.RequestClientCert,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.certificate(), nil },
		},
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ServeTLS(newBounded(p.listener, maxConnections), "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--query-listen: %w", err)
	}
	return nil
}
