package plugin

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

// Events are for people, bindings for pods that wait: writing an event costs the
// API server about as much as a third of a pod's way, so in a rush events stand
// back. They are written when no binding is under way, at least 20 per second
// meanwhile, and afterwards in a steady stream instead of a flood.
const (
	eventPatience = 50 * time.Millisecond
	eventPace     = 2 * time.Millisecond
	// maxEvents bounds the goroutines of waiting events; the pod's condition says the same.
	maxEvents = 10_000
)

// yielding is the rate limiter of the client that writes events: it lets events
// through one by one, when bindings leave room.
type yielding struct {
	turn    chan struct{} // holds the event that is next
	outage  func() bool   // outage says whether the last write to the API server failed; nil: it did not
	failing atomic.Bool   // the last write of an event or a condition got no answer

	mu      sync.Mutex
	waiting int
	binding int
	quiet   chan struct{} // closed while no binding is under way
}

var _ flowcontrol.RateLimiter = &yielding{}

func newYielding() *yielding {
	y := &yielding{turn: make(chan struct{}, 1), quiet: make(chan struct{})}
	close(y.quiet)
	return y
}

// bindingStarts and bindingEnds bracket the writing of a Binding.
func (y *yielding) bindingStarts() {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.binding++; y.binding == 1 {
		y.quiet = make(chan struct{})
	}
}

func (y *yielding) bindingEnds() {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.binding--; y.binding == 0 {
		close(y.quiet)
	}
}

// backlog is how many events wait to be written.
func (y *yielding) backlog() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.waiting
}

func (y *yielding) queue(n int) <-chan struct{} {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.waiting += n
	return y.quiet
}

// Wait blocks until it is an event's turn.
func (y *yielding) Wait(ctx context.Context) error {
	y.queue(1)
	defer y.queue(-1)
	select {
	case y.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-y.turn }()
	if err := y.sitOut(ctx); err != nil {
		return err
	}
	return y.standBack(ctx, eventPatience)
}

// sitOut blocks while the API server cannot be written to, not longer than outageMost:
// then an event finds out whether it can.
func (y *yielding) sitOut(ctx context.Context) error {
	for waited := time.Duration(0); y.away() && waited < outageMost; waited += outageStep {
		select {
		case <-time.After(outageStep):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// away says whether the API server could not be written to a moment ago.
func (y *yielding) away() bool { return y.failing.Load() || y.outage != nil && y.outage() }

// watched takes note of whether the API server answers.
type watched struct {
	http.RoundTripper
	y *yielding
}

// RoundTrip sends a request.
func (w watched) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.RoundTripper.RoundTrip(r)
	w.y.failing.Store(err != nil)
	return response, err
}

const (
	outageStep = 250 * time.Millisecond
	outageMost = 5 * time.Second
)

// standBack blocks while bindings are under way, not longer than a patience.
func (y *yielding) standBack(ctx context.Context, patience time.Duration) error {
	select {
	case <-y.queue(0):
		if y.backlog() > 1 {
			time.Sleep(eventPace)
		}
	case <-time.After(patience):
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// conditions is the rate limiter of the client that writes pods' conditions: it stands
// back for bindings, but does not queue behind events. Autoscalers wait for it.
type conditions struct{ *yielding }

const conditionPatience = 10 * time.Millisecond

// Wait blocks while bindings leave no room.
func (c conditions) Wait(ctx context.Context) error {
	if err := c.sitOut(ctx); err != nil {
		return err
	}
	return c.standBack(ctx, conditionPatience)
}

// Accept is Wait for clients without a context.
func (c conditions) Accept() { _ = c.Wait(context.Background()) }

// Accept is Wait for clients without a context.
func (y *yielding) Accept() { _ = y.Wait(context.Background()) }

// TryAccept lets an event through if it need not wait.
func (y *yielding) TryAccept() bool {
	select {
	case <-y.queue(0):
		return true
	default:
		return false
	}
}

// Stop is part of the interface; there is nothing to stop.
func (y *yielding) Stop() {}

// QPS is what the stream reaches when nothing binds.
func (y *yielding) QPS() float32 { return float32(time.Second / eventPace) }

// client makes a client that stands back for bindings.
func (y *yielding) client(config *rest.Config, name string, by flowcontrol.RateLimiter) (kubernetes.Interface, error) {
	config = rest.AddUserAgent(rest.CopyConfig(config), name)
	config.RateLimiter = by
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return watched{rt, y} })
	return kubernetes.NewForConfig(config)
}

// boundedRecorder drops events while too many wait.
type boundedRecorder struct {
	events.EventRecorderLogger
	y *yielding
}

// Eventf records an event, or drops it.
func (r boundedRecorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if r.y.backlog() < maxEvents {
		r.EventRecorderLogger.Eventf(regarding, related, eventType, reason, action, note, args...)
	}
}

// WithLogger keeps the bound.
func (r boundedRecorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return boundedRecorder{r.EventRecorderLogger.WithLogger(logger), r.y}
}
