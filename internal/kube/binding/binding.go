// Package binding writes a pod's placement to the API server, once, and finds out
// whether it was written when no answer arrives.
package binding

import (
	"cmp"
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/dialect"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// Writer posts Bindings.
type Writer struct {
	Client   kubernetes.Interface
	Patience time.Duration // the pause between reads after a Binding without an answer; 0: one second
	Most     time.Duration // how long it is read until there is a definite answer; 0 means a minute
	// Failed, when not nil, hears of an error at once, before it is known what was written.
	Failed func(error)
}

// Annotations are what a pod's Binding carries: the record, what the device plugins of
// its vocabularies read, and the queue that is charged.
func Annotations(pod *v1.Pod, c *kubeengine.Cycle) (map[string]string, error) {
	out := map[string]string{}
	if c.ByClaim() || c.Request.Vendor != "" { // otherwise it has no device
		text, err := record.Encode(dialect.Record(c.Request, c.Node, c.Grant))
		if err != nil {
			return nil, err
		}
		if c.ByClaim() { // its claims' status is the record; this says what was planned, for people
			out[names.AnnotationClaims] = text
		} else {
			out = dialect.Annotations(pod, c.Request, c.Node, c.Grant, time.Now())
			out[names.AnnotationDevices] = text
		}
	}
	if c.Queue != "" {
		out[names.AnnotationCharged] = c.Queue
	}
	return out, nil
}

// Write binds a pod to a node. The API server copies the Binding's annotations to
// the pod in the same write, so a pod is never bound without its record. nil means
// that the pod is bound as asked, also when the answer was lost.
func (w Writer) Write(ctx context.Context, pod *v1.Pod, node string, annotations map[string]string) error {
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: annotations},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
	err := w.Client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	if err == nil {
		return nil
	}
	if w.Failed != nil {
		w.Failed(err)
	}
	if !w.wasBound(ctx, binding, err) {
		return err
	}
	klog.FromContext(ctx).Info("Pod was bound although its Binding returned an error", "pod", klog.KObj(pod), "node", node, "err", err)
	return nil
}

// wasBound finds out whether a Binding was written although an error came back. The
// answer may be lost in a timeout or a dropped connection, and releasing devices that a
// bound pod uses would give them to two pods: so it reads the pod until there is a
// definite answer, for up to a minute unless Most says otherwise.
func (w Writer) wasBound(ctx context.Context, binding *v1.Binding, err error) bool {
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		return false // rejected, so not written
	}
	done := false
	_ = wait.PollUntilContextTimeout(ctx, cmp.Or(w.Patience, time.Second), cmp.Or(w.Most, time.Minute), true, func(ctx context.Context) (bool, error) {
		now, err := w.Client.CoreV1().Pods(binding.Namespace).Get(ctx, binding.Name, metav1.GetOptions{})
		if err != nil {
			return apierrors.IsNotFound(err), nil
		}
		done = now.UID == binding.UID && now.Spec.NodeName == binding.Target.Name &&
			now.Annotations[names.AnnotationDevices] == binding.Annotations[names.AnnotationDevices]
		return true, nil
	})
	return done
}
