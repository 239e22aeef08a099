package ask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tangram-dev/tangram/api/query"
)

// maxAnswer bounds what is kept of an answer: that of 5,000 nodes with 16 devices each, and
// some. A dump is not kept, and has no bound here.
const maxAnswer = 256 << 20

// again is how long the client waits before it repeats a question that found no leader, or
// a busy one: at first, and then twice as long each time up to maxAgain.
const (
	again    = 100 * time.Millisecond
	maxAgain = 2 * time.Second
)

// Client asks the scheduler. It may be used concurrently.
type Client struct {
	options   Options
	rest      *rest.Config
	kube      kubernetes.Interface
	namespace string

	mu    sync.Mutex
	route *route // the last one that worked
	found bool   // there has been one
}

// New reads the kubeconfig. It asks nothing yet.
func New(o Options) (*Client, error) {
	config, err := o.RESTConfig()
	if err != nil {
		return nil, err
	}
	namespace, err := o.DefaultNamespace()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	bounded := rest.CopyConfig(config)
	bounded.Timeout = o.timeout()
	kube, err := kubernetes.NewForConfig(bounded)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return &Client{options: o, rest: config, kube: kube, namespace: namespace}, nil
}

// Namespace is the one of objects that are named without one.
func (c *Client) Namespace() string { return c.namespace }

// Kube is a client of the API server with the same credentials.
func (c *Client) Kube() kubernetes.Interface { return c.kube }

// Close ends connections.
func (c *Client) Close() { c.drop(nil) }

// Ask returns the body of the answer, as it came. An answer that is not 200 is a
// *query.Error.
func (c *Client) Ask(ctx context.Context, q Question) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.timeout())
	defer cancel()
	answer, err := c.send(ctx, q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, &UnreachableError{"gpu-scheduler", fmt.Errorf("%s: the answer broke off: %w", q.Path, err)}
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("%s: the answer has more than %d MiB", q.Path, maxAnswer>>20)
	case answer.StatusCode != http.StatusOK:
		return nil, decodeError(answer.StatusCode, body)
	}
	return body, nil
}

// send asks until there is an answer to show: a leader that changes or is busy is asked
// again until the time for a question is over. The caller closes the answer's body.
func (c *Client) send(ctx context.Context, q Question) (*http.Response, error) {
	pause, until := again, time.Now().Add(c.options.timeout())
	for {
		answer, err := c.sendOnce(ctx, q)
		var retry bool
		switch {
		case err != nil:
			_, silent := errors.AsType[*UnreachableError](err)
			retry = silent && c.wasThere()
		case answer.StatusCode == http.StatusServiceUnavailable:
			c.drop(nil) // no leader: the Lease may name another one
			retry = true
		case answer.StatusCode == http.StatusTooManyRequests:
			retry = true
		}
		if !retry {
			return answer, err
		}
		if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
			until = deadline
		}
		if time.Until(until) < pause {
			return answer, err
		}
		if answer != nil {
			answer.Body.Close()
		}
		select {
		case <-ctx.Done():
			return nil, &UnreachableError{"gpu-scheduler", ctx.Err()}
		case <-time.After(pause):
		}
		pause = min(2*pause, maxAgain)
	}
}

func (c *Client) sendOnce(ctx context.Context, q Question) (*http.Response, error) {
	r, err := c.current(ctx)
	if err != nil {
		return nil, err
	}
	method := http.MethodGet
	if q.Path == query.PathWhatIf {
		method = http.MethodPost
	}
	u := url.URL{Scheme: "https", Host: r.end.Address, Path: q.Path, RawQuery: q.Params.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(q.Body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	answer, err := r.http.Do(request)
	if err != nil {
		c.drop(r)
		if uerr, ok := errors.AsType[*url.Error](err); ok {
			err = uerr.Err // without the URL, which says nothing to people
		}
		return nil, &UnreachableError{"gpu-scheduler at " + r.end.Address, err}
	}
	return answer, nil
}

// current is the route in use, or a new one.
func (c *Client) current(ctx context.Context) (*route, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.route != nil {
		return c.route, nil
	}
	end, err := c.find(ctx)
	if err != nil {
		return nil, err
	}
	r, err := c.connect(ctx, end)
	if err != nil {
		return nil, err
	}
	c.route, c.found = r, true
	return r, nil
}

// drop forgets a route (nil: whatever is in use).
func (c *Client) drop(r *route) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.route == nil || r != nil && r != c.route {
		return
	}
	c.route.http.CloseIdleConnections()
	c.route.close()
	c.route = nil
}

// wasThere says that there was a leader a moment ago, so that another is to be expected.
func (c *Client) wasThere() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.found
}
