package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/api/demand"
	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/kube/binding"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// bind is GPUBind. It binds every pod of its profile, those without GPUs too.
type bind struct {
	engine *kubeengine.Engine
	// client asks the fence once more when a Binding goes out.
	client       kubernetes.Interface
	events       *yielding
	fence        *fence
	audit        *auditor
	autoscales   *atomic.Bool // pods are marked for autoscalers, and bound when no placeholder is left
	placeholders *placeholders
	// patience is the pause between reads after a Binding without answer, most for how long.
	patience, most time.Duration
}

var _ fwk.BindPlugin = &bind{}

func (s *Shared) newBind(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	e, _, args, err := enlist[BindArgs](ctx, s, h, obj)
	if err != nil {
		return nil, err
	}
	var t tuning
	if err := readAll(bindSettings(), args, &t); err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	return &bind{engine: e, client: s.writer(h), events: s.events, fence: s.fence, patience: t.bind.every, most: t.bind.most, audit: &s.audit, autoscales: &s.autoscales, placeholders: &s.placeholders}, nil
}

// Name is the plugin's name in configurations.
func (b *bind) Name() string { return names.PluginBind }

// Bind posts the Binding, if this process still leads and the ledger still gives the
// pod the devices that its cycle was given.
func (b *bind) Bind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	var annotations map[string]string
	began := time.Now()
	c := readCycle(cs)
	if c.released() {
		if b.autoscales.Load() {
			if n := b.placeholders.await(ctx, demand.Digest(c.Name), placeholdersMost); n > 0 {
				klog.FromContext(ctx).Info("Bound though pods stand for it: an autoscaler may add nodes for them", "pod", klog.KObj(pod), "placeholders", n)
			}
		}
		weight, ok := c.Confirm()
		if !ok {
			metrics.Conflict(metrics.ConflictPlace)
			metrics.Failed(metrics.FailedPlace)
			return fwk.NewStatus(fwk.Unschedulable, takenBack)
		}
		var err error
		if annotations, err = binding.Annotations(pod, &c.Cycle); err != nil {
			return fwk.AsStatus(err)
		}
		if b.autoscales.Load() {
			binding.Mark(pod, annotations, weight.Gang, weight.Milli)
		}
	}
	b.events.bindingStarts()
	defer b.events.bindingEnds()
	if err := b.fence.check(); err != nil {
		b.engine.Unreachable()
		return fencedStatus(err)
	}
	w := binding.Writer{Client: b.client, Patience: b.patience, Most: b.most, Failed: func(err error) {
		if unreachable(err) {
			b.engine.Unreachable()
		}
	}}
	if err := w.Write(ctx, pod, node, annotations); errors.Is(err, binding.ErrFenced) {
		return fencedStatus(err)
	} else if err != nil {
		if apierrors.IsConflict(err) {
			metrics.Conflict(metrics.ConflictBinding)
		}
		if c.released() {
			metrics.Failed(metrics.FailedBind)
		}
		return fwk.AsStatus(err)
	}
	b.engine.Reachable()
	if c.released() {
		t := c.Timeline
		t.BindBegan, t.Bound = began, time.Now()
		metrics.Scheduled(klog.FromContext(ctx), klog.KObj(pod), c.Queue, t)
	}
	b.audit.started(pod, node, c)
	return nil
}

// fencedStatus is the status of a Binding that was not written since this process may not lead
// any more.
func fencedStatus(err error) *fwk.Status {
	metrics.Conflict(metrics.ConflictLease)
	metrics.Failed(metrics.FailedLease)
	return fwk.AsStatus(err)
}

// unreachable says whether an error is about the API server, not about the pod: trying
// other pods would fail as well.
func unreachable(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsTooManyRequests(err)
}
