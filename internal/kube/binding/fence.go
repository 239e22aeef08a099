package binding

import (
	"errors"
	"io"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ErrFenced is the cause of a write that was stopped: this process may not lead any more.
var ErrFenced = errors.New("not written")

// NewFencedClient makes a client whose writes ask may at the last moment. Between a decision
// and its way out lie rate limits, other requests on the connection and a busy processor, and
// a process may be stopped and resumed anywhere; so the question is asked when the request is
// handed to the connection, and again whenever the connection reads of its body: a request
// without its body is nothing to the API server. What then still gets out is what was being
// copied to the socket. Reads are not asked about.
func NewFencedClient(config *rest.Config, may func() error) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return fenced{next, may} })
	return kubernetes.NewForConfig(config)
}

// fenced is the innermost transport before the connection.
type fenced struct {
	next http.RoundTripper
	may  func() error
}

// RoundTrip sends a request, if it is a read or may be written now.
func (f fenced) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == "" {
		return f.next.RoundTrip(r)
	}
	if err := f.may(); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a transport closes it, also when it fails
		}
		return nil, err
	}
	if r.Body == nil || r.Body == http.NoBody {
		return f.next.RoundTrip(r)
	}
	again := r.Clone(r.Context())
	again.Body = &fencedBody{r.Body, f.may, r.ContentLength}
	if get := r.GetBody; get != nil { // for a connection that was lost before it was used
		again.GetBody = func() (io.ReadCloser, error) {
			body, err := get()
			return &fencedBody{body, f.may, r.ContentLength}, err
		}
	}
	return f.next.RoundTrip(again)
}

// fencedBody is a body that cannot be read when it may not be written.
type fencedBody struct {
	io.ReadCloser
	may  func() error
	left int64 // the bytes that were not read; negative: not known
}

// Read reads of the body. When all of it was handed over there is nothing left to stop.
func (b *fencedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return b.ReadCloser.Read(p)
	}
	n, err := b.ReadCloser.Read(p)
	if stop := b.may(); stop != nil {
		return 0, stop
	}
	if b.left > 0 {
		b.left = max(0, b.left-int64(n))
	}
	return n, err
}
