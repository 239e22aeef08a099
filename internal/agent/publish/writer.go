package publish

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// writer is what the loop remembers between two writes.
type writer struct {
	// node and object are as the API server showed them last; nil when they have to be
	// read.
	node   *v1.Node
	object *unstructured.Unstructured
	// sent is the spec that was sent last, and the generation it led to: what the API
	// server does not keep of it (an older CRD) must not be sent for ever.
	sent       map[string]any
	generation int64
	// spec is the spec of a revision of the inventory, left what cannot be in it.
	spec     map[string]any
	left     []string
	revision int
	// described is the generation whose devices are known.
	described int64
	// health is the health that was written last, in JSON. Telemetry may be written again
	// from telemetryAt on, and is written at heartbeat whatever happens; spread: the first
	// heartbeat is over.
	health                 string
	telemetryAt, heartbeat time.Time
	spread                 bool
	retryAt                time.Time
	// gone: the node does not exist, and nothing is written.
	gone bool
	// taken are labels that were taken over from others, wrote those that were written.
	taken map[string]bool
	wrote map[string]string
}

// callTimeout bounds each call of the API server.
const callTimeout = 10 * time.Second

// absentNode is how often a node that does not exist is looked for.
const absentNode = 30 * time.Second

// sync makes the API equal to what is known, as far as that is worth writing now, and
// returns when to look again.
func (p *Publisher) sync(ctx context.Context, now time.Time) (next time.Duration, err error) {
	p.mu.Lock()
	s := p.state
	p.mu.Unlock()
	if !s.known() {
		return heartbeatTo, nil // it wakes when something is
	}
	if p.node == nil || !now.Before(p.heartbeat) {
		if err := p.readNode(ctx); err != nil {
			return 0, err
		}
	}
	if p.gone {
		return absentNode/2 + rand.N(absentNode), nil
	}
	// Labels do not wait for a GPUNode that cannot be written: its CRD may be missing.
	err = errors.Join(p.writeObject(ctx, &s, now), p.writeLabels(ctx, &s))
	if err != nil {
		return 0, err
	}
	p.tell()
	return p.next(now), nil
}

// tell writes the events that wait. While the API server cannot be written to they do,
// the newest of them.
func (p *Publisher) tell() {
	p.mu.Lock()
	notices := p.pending
	p.pending = nil
	p.mu.Unlock()
	say(p.options.Events, p.node, notices)
}

// readNode looks at the node. One that is gone takes its GPUNode with it, as its owner;
// one that came back is another one.
func (p *Publisher) readNode(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	node, err := p.options.API.GetNode(ctx, p.options.Node)
	switch {
	case apierrors.IsNotFound(err):
		if !p.gone {
			p.logger.Info("Node does not exist; nothing is written until it does")
		}
		p.gone, p.node, p.object = true, nil, nil
		return nil
	case err != nil:
		return fmt.Errorf("read node %s: %w", p.options.Node, err)
	}
	if p.gone || p.node != nil && p.node.UID != node.UID {
		p.object = nil
	}
	p.gone, p.node = false, node
	p.labels.Store(node.Labels)
	return nil
}

// writeLabels brings the node's labels up to date.
func (p *Publisher) writeLabels(ctx context.Context, s *state) error {
	if s.problem != nil || s.inventory == nil {
		return nil // without a driver nothing is known: what was written stays
	}
	o := p.optionsFor(s)
	labels := patchLabels(p.node, labelsOf(o, s.inventory), o.Mode == v1alpha1.Serving, p.taken, p.wrote)
	if len(labels) == 0 {
		return nil
	}
	body, err := nodePatch(p.node, labels)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	node, err := p.options.API.PatchNode(ctx, p.options.Node, body)
	p.options.Wrote("labels", err)
	if err != nil {
		p.node = nil // it may be another one by now
		return fmt.Errorf("write labels of node %s: %w", p.options.Node, err)
	}
	p.node = node
	for key, value := range labels {
		if text, set := value.(string); set {
			p.wrote[key] = text
		} else {
			delete(p.wrote, key)
		}
	}
	return nil
}

// next is when to look again.
func (p *Publisher) next(now time.Time) time.Duration {
	next := p.heartbeat
	p.mu.Lock()
	if p.moved() && p.telemetryAt.Before(next) {
		next = p.telemetryAt
	}
	p.mu.Unlock()
	return max(time.Millisecond, next.Sub(now))
}
