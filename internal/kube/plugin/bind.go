package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
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
	// patience is the pause between questions after a Binding without answer.
	patience time.Duration
}

var _ fwk.BindPlugin = &bind{}

func (s *Shared) newBind(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	if _, _, _, err := enlist[struct{}](ctx, s, h, obj); err != nil {
		return nil, err
	}
	return &bind{handle: h, events: s.events, patience: time.Second}, nil
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
	if b.wasBound(ctx, pod, binding, err) {
		klog.FromContext(ctx).Info("Binding reported an error but was done", "pod", klog.KObj(pod), "node", node, "err", err)
		return nil
	}
	return fwk.AsStatus(err)
}

// wasBound finds out whether a Binding was done although an error came back. The
// answer may be lost in a time-out or a dropped connection, and letting go of devices
// that a bound pod uses would hand them out twice: so ask until there is a definite
// answer, for up to a minute.
func (b *bind) wasBound(ctx context.Context, pod *v1.Pod, binding *v1.Binding, err error) bool {
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		return false // refused, so not done
	}
	done := false
	_ = wait.PollUntilContextTimeout(ctx, b.patience, time.Minute, true, func(ctx context.Context) (bool, error) {
		now, err := b.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return apierrors.IsNotFound(err), nil
		}
		done = now.UID == pod.UID && now.Spec.NodeName == binding.Target.Name &&
			now.Annotations[names.AnnotationDevices] == binding.Annotations[names.AnnotationDevices]
		return true, nil
	})
	return done
}
