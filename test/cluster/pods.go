package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
)

// api is the client for pods of the world's namespace.
func (w *World) api() corev1.PodInterface { return w.Client.CoreV1().Pods(w.Namespace) }

// Create creates a pod, in the world's namespace unless it has one.
func (w *World) Create(p *v1.Pod) *v1.Pod {
	w.T.Helper()
	if p.Namespace == "" {
		p.Namespace = w.Namespace
	}
	out, err := w.Within(p.Namespace).api().Create(context.Background(), p, metav1.CreateOptions{})
	w.Must(err)
	return out
}

// CreateAll creates many pods, several at a time.
func (w *World) CreateAll(pods []*v1.Pod) {
	w.T.Helper()
	queue := make(chan *v1.Pod)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for p := range queue {
				namespace := w.Namespace
				if p.Namespace != "" {
					namespace = p.Namespace
				}
				if _, err := w.Within(namespace).api().Create(context.Background(), p, metav1.CreateOptions{}); err != nil {
					w.T.Errorf("create %s: %v", p.Name, err)
				}
			}
		})
	}
	for _, p := range pods {
		queue <- p
	}
	close(queue)
	workers.Wait()
}

// Get is a pod as it is now.
func (w *World) Get(name string) *v1.Pod {
	w.T.Helper()
	p, err := w.api().Get(context.Background(), name, metav1.GetOptions{})
	w.Must(err)
	return p
}

// Find is a pod as it is now; nil when there is none.
func (w *World) Find(name string) *v1.Pod {
	p, err := w.api().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return p
}

// Update writes a pod.
func (w *World) Update(p *v1.Pod) {
	w.T.Helper()
	_, err := w.Within(p.Namespace).api().Update(context.Background(), p, metav1.UpdateOptions{})
	w.Must(err)
}

// UpdateStatus writes the status of a pod.
func (w *World) UpdateStatus(p *v1.Pod) {
	w.T.Helper()
	_, err := w.Within(p.Namespace).api().UpdateStatus(context.Background(), p, metav1.UpdateOptions{})
	w.Must(err)
}

// Delete deletes a pod at once: without a kubelet it would never end.
func (w *World) Delete(name string) {
	w.T.Helper()
	w.Must(w.api().Delete(context.Background(), name, atOnce()))
}

// Bind binds a pod to a node, as a scheduler does, with annotations; nil for none. With
// options of a dry run it only asks.
func (w *World) Bind(pod, node string, annotations map[string]string, options ...metav1.CreateOptions) error {
	binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod, Annotations: annotations}, Target: v1.ObjectReference{Kind: "Node", Name: node}}
	return w.api().Bind(context.Background(), binding, append(options, metav1.CreateOptions{})[0])
}

// Finish makes a pod succeed, as if its containers had ended well.
func (w *World) Finish(pod string) {
	w.T.Helper()
	w.Patch(Pods, pod, `{"status":{"phase":"Succeeded"}}`, "status")
}

// DeleteIf is Delete for a pod that may be gone already.
func (w *World) DeleteIf(name string) {
	w.T.Helper()
	if err := w.api().Delete(context.Background(), name, atOnce()); !apierrors.IsNotFound(err) {
		w.Must(err)
	}
}

// atOnce deletes without grace, and owned objects in the background.
func atOnce() metav1.DeleteOptions {
	now, background := int64(0), metav1.DeletePropagationBackground
	return metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background}
}

// Pods are the pods with some labels, as a selector; all when it is empty.
func (w *World) Pods(selector string) []v1.Pod {
	w.T.Helper()
	list, err := w.api().List(context.Background(), metav1.ListOptions{LabelSelector: selector})
	w.Must(err)
	return list.Items
}

// AllPods are the pods of all namespaces.
func (w *World) AllPods() []v1.Pod {
	w.T.Helper()
	return w.Within("").Pods("")
}

// Clear deletes all pods at once and waits until none is left.
func (w *World) Clear() {
	w.T.Helper()
	w.Complete("namespace "+w.Namespace+" has no pods", func() string {
		w.Must(w.api().DeleteCollection(context.Background(), atOnce(), metav1.ListOptions{}))
		return w.left()
	})
}

// Gone waits until no pod is left.
func (w *World) Gone() {
	w.T.Helper()
	w.Complete("namespace "+w.Namespace+" has no pods", w.left)
}

// left describes the pods that there are; "" for none.
func (w *World) left() string {
	pods := w.Pods("")
	if len(pods) == 0 {
		return ""
	}
	return fmt.Sprintf("%d pods; %s is %s with finalizers %v", len(pods), pods[0].Name, pods[0].Status.Phase, pods[0].Finalizers)
}

// Bound waits until pods have nodes and returns them.
func (w *World) Bound(pods ...string) (out []*v1.Pod) {
	w.T.Helper()
	for _, name := range pods {
		w.Complete("pod "+name+" is bound", func() string {
			p, err := w.api().Get(context.Background(), name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if p.Spec.NodeName == "" {
				return Waiting(p)
			}
			out = append(out, p)
			return ""
		})
	}
	return out
}

// Placed waits until a pod is bound and returns its node and its record.
func (w *World) Placed(pod string) (string, record.Record) {
	w.T.Helper()
	p := w.Bound(pod)[0]
	rec, err := record.Decode(p.Annotations[names.AnnotationDevices])
	if err != nil {
		w.T.Fatalf("pod %s: %v", pod, err)
	}
	return p.Spec.NodeName, rec
}

// Waits waits until a pod has no node and its condition says why, in these words among
// others.
func (w *World) Waits(pod string, words ...string) {
	w.T.Helper()
	w.Complete("pod "+pod+" waits: "+strings.Join(words, ", "), func() string {
		p, err := w.api().Get(context.Background(), pod, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case p.Spec.NodeName != "":
			return "it is bound to " + p.Spec.NodeName
		case Scheduled(p).Message == "" || missing(Waiting(p), words) != "":
			return Waiting(p)
		}
		return ""
	})
}

// BoundAll waits until exactly n live pods match a selector and all are bound, and counts
// them by node.
func (w *World) BoundAll(selector string, n int) map[string]int {
	w.T.Helper()
	var nodes map[string]int
	w.Eventually(fmt.Sprintf("%d pods with %s are bound", n, selector), func() (bool, string) {
		nodes = map[string]int{}
		live, seen := 0, ""
		for _, p := range w.Pods(selector) {
			if !Live(&p) {
				continue
			}
			live++
			if p.Spec.NodeName != "" {
				nodes[p.Spec.NodeName]++
			} else {
				seen = fmt.Sprintf("%s (gates %v) %s", p.Name, p.Spec.SchedulingGates, Waiting(&p))
			}
		}
		return live == n && seen == "", fmt.Sprintf("%d live; %s", live, seen)
	})
	return nodes
}

// WaitAll waits until n live pods match a selector and the conditions of all say why they
// wait, with these words. None may be bound.
func (w *World) WaitAll(selector string, n int, words string) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("%d pods with %s wait: %q", n, selector, words), func() (bool, string) {
		waiting, seen := 0, ""
		for _, p := range w.Pods(selector) {
			if !Live(&p) {
				continue
			}
			if p.Spec.NodeName != "" {
				w.T.Fatalf("%s is bound to %s and should wait", p.Name, p.Spec.NodeName)
			}
			if seen = Waiting(&p); strings.Contains(seen, words) {
				waiting++
			}
		}
		return waiting == n, fmt.Sprintf("%d wait; %s", waiting, seen)
	})
}
