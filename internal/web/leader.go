package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"github.com/tangram-dev/tangram/api/query"
)

// Bounds of what is passed on.
const (
	// maxPassed is how many questions are passed on at a time; the scheduler has its own
	// bound, this one keeps visitors from filling the memory of the proxy.
	maxPassed = 64
	// maxBodies is how many manifests are read at a time: those who send slowly hold up only
	// other manifests.
	maxBodies = 16
	// findWithin is how long reading the Lease may take.
	findWithin = 5 * time.Second
	// foundFor is how long the leader's address is believed before the Lease is read again.
	foundFor = 5 * time.Second
	// answerWithin is the longest that an answer may take. What-ifs of large manifests take
	// seconds.
	answerWithin = 60 * time.Second
)

// Leader passes questions on to the scheduler that leads. It adds no rights: of the
// visitor's headers only Authorization, Accept, Accept-Encoding and Content-Type go on, and
// only paths below query.Prefix. Without a leader it answers 503, when the leader cannot be
// reached 502, both as query.Error.
type Leader struct {
	find   func(context.Context) (query.Endpoint, error)
	slots  chan struct{}
	bodies chan struct{}

	mu       sync.Mutex
	endpoint query.Endpoint
	found    time.Time
	proxy    *httputil.ReverseProxy
	close    func()
}

// NewLeader returns a Leader that learns from find where the leader answers. find is called
// at most every five seconds, and after a failure.
func NewLeader(find func(context.Context) (query.Endpoint, error)) *Leader {
	return &Leader{find: find, slots: make(chan struct{}, maxPassed), bodies: make(chan struct{}, maxBodies)}
}

// ServeHTTP implements http.Handler.
func (l *Leader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if problem := allowed(r); problem != nil {
		Refuse(w, *problem)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	r = r.WithContext(ctx)
	if r.Method == http.MethodPost {
		leave, ok := enter(l.bodies)
		if !ok {
			busy(w)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, query.MaxBody))
		leave()
		if err != nil {
			Refuse(w, *bodyProblem(err))
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	} else {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	leave, ok := enter(l.slots)
	if !ok {
		busy(w)
		return
	}
	defer leave()
	proxy, err := l.current(ctx)
	if err != nil {
		w.Header().Set("Retry-After", "2")
		Refuse(w, query.Error{Status: http.StatusServiceUnavailable, Reason: "NotLeader", Message: "no scheduler leads: " + err.Error()})
		return
	}
	proxy.ServeHTTP(w, r)
}

// enter takes one of a bounded number of places, if there is one.
func enter(places chan struct{}) (leave func(), ok bool) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, true
	default:
		return nil, false
	}
}

func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	Refuse(w, query.Error{Status: http.StatusTooManyRequests, Reason: "Busy", Message: "too many questions at once"})
}

// bodyProblem is what is wrong with a manifest that could not be read.
func bodyProblem(err error) *query.Error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &query.Error{Status: http.StatusRequestEntityTooLarge, Reason: "TooLarge", Message: "the manifest is larger than 1 MiB", Field: "body"}
	}
	return &query.Error{Status: http.StatusBadRequest, Reason: "Invalid", Message: "the manifest could not be read", Field: "body"}
}

// allowed refuses what is no question before anything is done for it.
func allowed(r *http.Request) *query.Error {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		return &query.Error{Status: http.StatusMethodNotAllowed, Reason: "Invalid", Message: "questions are GET or POST", Field: "method"}
	case !strings.HasPrefix(r.URL.Path, query.Prefix) || strings.Contains(r.URL.Path[len(query.Prefix):], "/") || strings.Contains(r.URL.Path, ".."):
		return &query.Error{Status: http.StatusNotFound, Reason: "NotFound", Message: "there is no such question"}
	case r.Method == http.MethodPost && r.URL.Path != query.PathWhatIf:
		return &query.Error{Status: http.StatusMethodNotAllowed, Reason: "Invalid", Message: "only " + query.PathWhatIf + " takes a POST", Field: "method"}
	case len(r.URL.RawQuery) > query.MaxQuery:
		return &query.Error{Status: http.StatusRequestURITooLong, Reason: "TooLarge", Message: "the parameters are too long"}
	case r.ContentLength > query.MaxBody:
		return &query.Error{Status: http.StatusRequestEntityTooLarge, Reason: "TooLarge", Message: "the manifest is larger than 1 MiB", Field: "body"}
	case r.Header.Get("Authorization") == "":
		return &query.Error{Status: http.StatusUnauthorized, Reason: "Unauthorized", Message: "no bearer token"}
	case r.Header.Get("Sec-Fetch-Site") != "" && r.Header.Get("Sec-Fetch-Site") != "same-origin" && r.Header.Get("Sec-Fetch-Site") != "none":
		return &query.Error{Status: http.StatusForbidden, Reason: "Forbidden", Message: "questions from other sites are not answered"}
	}
	return nil
}

// current is the proxy to the leader as last found.
func (l *Leader) current(ctx context.Context) (*httputil.ReverseProxy, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.proxy != nil && time.Since(l.found) < foundFor {
		return l.proxy, nil
	}
	ctx, cancel := context.WithTimeout(ctx, findWithin)
	defer cancel()
	endpoint, err := l.find(ctx)
	if err != nil {
		return nil, err
	}
	l.found = time.Now()
	if l.proxy != nil && endpoint == l.endpoint {
		return l.proxy, nil
	}
	proxy, release, err := l.to(endpoint)
	if err != nil {
		return nil, err
	}
	if l.close != nil {
		l.close()
	}
	l.endpoint, l.proxy, l.close = endpoint, proxy, release
	return proxy, nil
}

// lost makes the next question look for the leader again.
func (l *Leader) lost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found = time.Time{}
}

// to is a proxy to one endpoint, which must prove itself by the certificate that the Lease
// names.
func (l *Leader) to(endpoint query.Endpoint) (*httputil.ReverseProxy, func(), error) {
	roots := x509.NewCertPool()
	if endpoint.Address == "" || !roots.AppendCertsFromPEM([]byte(endpoint.CA)) {
		return nil, nil, errors.New("its Lease names no address or certificate")
	}
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, ServerName: endpoint.ServerName, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: answerWithin, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 16,
		// Bodies pass as they are: compressed when the browser asked for it.
		DisableCompression: true, ForceAttemptHTTP2: true,
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "https", endpoint.Address, ""
			p.Out.Header = http.Header{}
			for _, name := range []string{"Authorization", "Accept", "Accept-Encoding", "Content-Type"} {
				if value := p.In.Header.Get(name); value != "" {
					p.Out.Header.Set(name, value)
				}
			}
			p.Out.Header.Set("User-Agent", "tangram-web")
		},
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode == http.StatusServiceUnavailable {
				l.lost() // it may no longer lead
			}
			kept := http.Header{}
			for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Length", "Date", "Vary", "Retry-After"} {
				if value := r.Header.Get(name); value != "" {
					kept.Set(name, value)
				}
			}
			kept.Set("Cache-Control", "no-store")
			r.Header = kept
			return nil
		},
		ErrorHandler: l.failed,
		ErrorLog:     log.New(io.Discard, "", 0), // the visitor is told; a log line per question would not help
	}
	return proxy, transport.CloseIdleConnections, nil
}

// failed answers a question that could not be passed on.
func (l *Leader) failed(w http.ResponseWriter, r *http.Request, _ error) {
	if !errors.Is(r.Context().Err(), context.Canceled) { // else the visitor has gone
		l.lost()
	}
	// The cause can name addresses inside the cluster, so it is not passed on.
	Refuse(w, query.Error{Status: http.StatusBadGateway, Reason: "Unreachable", Message: "the scheduler that leads cannot be reached"})
}
