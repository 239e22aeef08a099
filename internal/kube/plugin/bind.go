package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/kube/binding"
)

// bind is GPUBind. It binds every pod of its profile, those without GPUs too.
type bind struct {
	handle fwk.Handle
	events *yielding
	// patience is the pause between questions after a Binding without answer.
	patience time.Duration
}

var _ fwk.BindPlugin = &bind{}

func (s *Shared) newBind(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	if _, _, _, err := enlist[struct{}](ctx, s, h, obj); err != nil {
		return nil, err
	}
	return &bind{handle: h, events: s.events}, nil
}

// Name is the plugin's name in configurations.
func (b *bind) Name() string { return names.PluginBind }

// Bind posts the Binding.
func (b *bind) Bind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	var annotations map[string]string
	if c := readCycle(cs); c != nil && c.given != nil && c.request.Vendor != "" {
		var err error
		if annotations, err = binding.Annotations(pod, c.request, c.given); err != nil {
			return fwk.AsStatus(err)
		}
	}
	b.events.bindingStarts()
	defer b.events.bindingEnds()
	w := binding.Writer{Client: b.handle.ClientSet(), Patience: b.patience}
	if err := w.Write(ctx, pod, node, annotations); err != nil {
		return fwk.AsStatus(err)
	}
	return nil
}
