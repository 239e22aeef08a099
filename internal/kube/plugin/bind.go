package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// bind is GPUBind. It binds every pod of its profile, those without GPUs too.
type bind struct {
	handle fwk.Handle
	events *yielding
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

// Bind posts the Binding. The API server copies its annotations to the pod in
// the same write, so a pod is never bound without its record.
func (b *bind) Bind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
	if c := readCycle(cs); c != nil && c.given != nil {
		text, err := record.Encode(dialect.Record(c.request, c.given.Node, c.given.Grant))
		if err != nil {
			return fwk.AsStatus(err)
		}
		binding.Annotations = dialect.Annotations(pod, c.request, c.given.Node, c.given.Grant, time.Now())
		binding.Annotations[names.AnnotationDevices] = text
	}
	b.events.bindingStarts()
	defer b.events.bindingEnds()
	pods := b.handle.ClientSet().CoreV1().Pods(pod.Namespace)
	err := pods.Bind(ctx, binding, metav1.CreateOptions{})
	if err == nil {
		return nil
	}
	// The answer may be lost although the API server did the work (a time-out, a
	// dropped connection). Letting go of devices a bound pod uses would hand them
	// out twice, so look before giving up.
	now, getErr := pods.Get(ctx, pod.Name, metav1.GetOptions{})
	if getErr == nil && now.UID == pod.UID && now.Spec.NodeName == node &&
		now.Annotations[names.AnnotationDevices] == binding.Annotations[names.AnnotationDevices] {
		klog.FromContext(ctx).Info("Binding reported an error but was done", "pod", klog.KObj(pod), "node", node, "err", err)
		return nil
	}
	return fwk.AsStatus(err)
}
