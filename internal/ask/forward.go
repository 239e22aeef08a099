package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"github.com/tangram-dev/tangram/api/query"
)

// forward returns connections to the leader's pod through the API server, as
// `kubectl port-forward` makes them, without a port on this machine that others could use.
// The caller needs the right to create pods/portforward in the pod's namespace.
func (c *Client) forward(end query.Endpoint) (dial, func(), error) {
	namespace, name, ok := strings.Cut(end.Pod, "/")
	if !ok {
		return nil, nil, fmt.Errorf("pod: %q, want NAMESPACE/NAME", end.Pod)
	}
	_, port, err := net.SplitHostPort(end.Address)
	if err != nil {
		return nil, nil, err
	}
	config := rest.CopyConfig(c.rest)
	target := c.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(name).SubResource("portforward").URL()
	dialer, err := streamDialer(config, target)
	if err != nil {
		return nil, nil, err
	}
	streams, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, nil, err
	}
	var id atomic.Int64
	open := func(context.Context) (net.Conn, error) { return openForward(streams, port, id.Add(1)) }
	return open, func() { _ = streams.Close() }, nil
}

// streamDialer prefers WebSockets, which proxies let through, to SPDY, which old API
// servers want.
func streamDialer(config *rest.Config, target *url.URL) (httpstream.Dialer, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	websocket, err := portforward.NewSPDYOverWebsocketDialer(target, config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialer(websocket, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// openForward opens one connection: a stream for its bytes, one for what goes wrong.
func openForward(streams httpstream.Connection, port string, id int64) (net.Conn, error) {
	headers := http.Header{}
	headers.Set(v1.StreamType, v1.StreamTypeError)
	headers.Set(v1.PortHeader, port)
	headers.Set(v1.PortForwardRequestIDHeader, strconv.FormatInt(id, 10))
	problems, err := streams.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	_ = problems.Close() // this side writes nothing
	headers.Set(v1.StreamType, v1.StreamTypeData)
	data, err := streams.CreateStream(headers)
	if err != nil {
		streams.RemoveStreams(problems)
		return nil, err
	}
	conn := &forwarded{Stream: data, port: port, done: func() { streams.RemoveStreams(problems, data) }}
	go func() {
		if message, err := io.ReadAll(io.LimitReader(problems, 1<<10)); err == nil && len(message) > 0 {
			conn.fail(errors.New(strings.TrimSpace(string(message))))
		}
	}()
	return conn, nil
}

// forwarded is a stream of a port-forward as a connection. Deadlines end it: a stream has
// none of its own, and a connection whose deadline passed is not used again.
type forwarded struct {
	httpstream.Stream
	port string
	done func()

	mu      sync.Mutex
	failure error
	timer   *time.Timer
	closed  bool
}

func (f *forwarded) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure == nil && !f.closed {
		f.failure = err
		_ = f.Reset()
	}
}

// cause is why the stream ended, when that is known, else the stream's own error.
func (f *forwarded) cause(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && f.failure != nil {
		return f.failure
	}
	return err
}

func (f *forwarded) Read(p []byte) (int, error) {
	n, err := f.Stream.Read(p)
	return n, f.cause(err)
}

func (f *forwarded) Write(p []byte) (int, error) {
	n, err := f.Stream.Write(p)
	return n, f.cause(err)
}

func (f *forwarded) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	err := f.Reset()
	f.done()
	return err
}

func (f *forwarded) LocalAddr() net.Addr  { return forwardAddr(f.port) }
func (f *forwarded) RemoteAddr() net.Addr { return forwardAddr(f.port) }

func (f *forwarded) SetDeadline(t time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
	if !t.IsZero() {
		f.timer = time.AfterFunc(time.Until(t), func() { f.fail(context.DeadlineExceeded) })
	}
	return nil
}

func (f *forwarded) SetReadDeadline(t time.Time) error { return f.SetDeadline(t) }

// SetWriteDeadline does nothing: writes go to a connection to the API server, which has
// its own.
func (f *forwarded) SetWriteDeadline(time.Time) error { return nil }

type forwardAddr string

func (forwardAddr) Network() string  { return "portforward" }
func (a forwardAddr) String() string { return "pod:" + string(a) }
