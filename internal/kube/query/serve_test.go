package query

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
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

// TestBounded: who opens more connections than there may be loses their own, the oldest
// first; others are let in, and stay.
func TestBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := newBounded(l, 3)
	// All of 127.0.0.0/8 is this machine: two callers.
	dial := func(from string) (client, server net.Conn) {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Skipf("%s: %v", from, err) // no such addresses here
		}
		t.Cleanup(func() { c.Close() })
		s, err := b.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c, s
	}
	closed := func(c net.Conn) bool {
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		var timeout net.Error
		return !errors.As(err, &timeout) || !timeout.Timeout()
	}
	var hostile []net.Conn
	for range 3 {
		c, _ := dial("127.0.0.2")
		hostile = append(hostile, c)
	}
	guest, server := dial("127.0.0.3")
	for range 5 {
		c, _ := dial("127.0.0.2")
		hostile = append(hostile, c)
	}
	if closed(guest) {
		t.Error("a caller with one connection was put out")
	}
	for i, c := range hostile {
		if got, want := closed(c), i < len(hostile)-2; got != want {
			t.Errorf("connection %d of %d: closed %v, want %v", i, len(hostile), got, want)
		}
	}
	server.Close()
	server.Close() // makes room once
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total != 2 || len(b.open) != 1 {
		t.Errorf("%d connections of %d addresses", b.total, len(b.open))
	}
}
