package query

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestPort: the port serves what its Endpoint says, until the context ends.
func TestPort(t *testing.T) {
	p := &Port{Listen: "127.0.0.1:0", Pod: "ns/name"}
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- p.Serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	}()
	e := p.Endpoint("me")
	if e.Holder != "me" || e.Pod != "ns/name" || e.ServerName != serverName || e.Address != p.listener.Addr().String() {
		t.Errorf("%+v", e)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(e.CA)) {
		t.Fatalf("no certificate: %s", e.CA)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: e.ServerName}}}
	answer, err := client.Get("https://" + e.Address)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if _, err := http.Get("https://" + e.Address); err == nil {
		t.Error("trusted by who was not given the certificate")
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("still serves")
	}
}

// TestAdvertise: the address that callers are told.
func TestAdvertise(t *testing.T) {
	for _, c := range []struct{ listen, advertise, want string }{
		{"127.0.0.1:0", "", "127.0.0.1"},
		{"127.0.0.1:0", "10.1.2.3", "10.1.2.3"},
		{":0", "10.1.2.3", "10.1.2.3"},
		{":0", "fd00::1", "fd00::1"},
		{":0", "query.example:443", "query.example"},
	} {
		p := &Port{Listen: c.listen, Advertise: c.advertise}
		if err := p.Open(); err != nil {
			t.Fatal(err)
		}
		_, bound, _ := net.SplitHostPort(p.listener.Addr().String())
		host, port, err := net.SplitHostPort(p.Endpoint("").Address)
		if err != nil || host != c.want || port != bound && port != "443" {
			t.Errorf("%+v: %s %s, %v", c, host, port, err)
		}
		p.listener.Close()
	}
	p := &Port{Listen: "127.0.0.1:0"}
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	defer p.listener.Close()
	if err := (&Port{Listen: p.listener.Addr().String()}).Open(); err == nil {
		t.Error("a port was opened twice")
	}
}

// TestBounded: connections beyond the bound wait until one is closed.
func TestBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := newBounded(l, 1)
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := b.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	for range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first := <-accepted
	select {
	case <-accepted:
		t.Fatal("two connections")
	case <-time.After(20 * time.Millisecond):
	}
	first.Close()
	first.Close() // makes room once
	second := <-accepted
	second.Close()
	l.Close()
	for range accepted {
	}
}
