package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/test/await"
)

// Pod is a pod of gpu-scheduler that asks for GPUs; change may make it anything else.
func Pod(namespace, name string, gpus int64, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: map[string]string{}, Labels: map[string]string{}},
		Spec: v1.PodSpec{
			SchedulerName: names.SchedulerName,
			Containers: []v1.Container{{
				Name: "main", Image: "pause",
				Resources: v1.ResourceRequirements{Limits: v1.ResourceList{}},
			}},
		},
	}
	if gpus > 0 {
		p.Spec.Containers[0].Resources.Limits[names.ResourceNVIDIA] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// Label changes a pod to one with a label.
func Label(key, value string) func(*v1.Pod) { return func(p *v1.Pod) { p.Labels[key] = value } }

// Annotate changes a pod to one with an annotation.
func Annotate(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations[key] = value }
}

// Create creates a pod.
func (c *Cluster) Create(t testing.TB, p *v1.Pod) *v1.Pod {
	t.Helper()
	out, err := c.Client.CoreV1().Pods(p.Namespace).Create(context.Background(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Get is a pod as it is now.
func (c *Cluster) Get(t testing.TB, namespace, name string) *v1.Pod {
	t.Helper()
	p, err := c.Client.CoreV1().Pods(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Delete deletes a pod at once: where no kubelets run, nobody else would end it.
func (c *Cluster) Delete(t testing.TB, namespace, name string) {
	t.Helper()
	now := int64(0)
	if err := c.Client.CoreV1().Pods(namespace).Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
}

// Scheduled is a pod's PodScheduled condition, which says why it waits; without one, the
// zero value.
func Scheduled(p *v1.Pod) v1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c
		}
	}
	return v1.PodCondition{}
}

// Bound waits until pods have nodes, each within limit, and returns them.
func (c *Cluster) Bound(t testing.TB, limit time.Duration, namespace string, pods ...string) (out []*v1.Pod) {
	t.Helper()
	for _, name := range pods {
		await.Eventually(t, "pod "+name+" is bound", limit, func() (bool, string) {
			p, err := c.Client.CoreV1().Pods(namespace).Get(context.Background(), name, metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			if p.Spec.NodeName == "" {
				return false, Scheduled(p).Message
			}
			out = append(out, p)
			return true, ""
		})
	}
	return out
}

// Waits waits until a pod has no node and is told why, in these words among others.
func (c *Cluster) Waits(t testing.TB, limit time.Duration, namespace, pod string, words ...string) {
	t.Helper()
	await.Eventually(t, "pod "+pod+" waits: "+strings.Join(words, ", "), limit, func() (bool, string) {
		p, err := c.Client.CoreV1().Pods(namespace).Get(context.Background(), pod, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		if p.Spec.NodeName != "" {
			return false, "it is bound to " + p.Spec.NodeName
		}
		said := Scheduled(p).Message
		for _, w := range words {
			if !strings.Contains(said, w) {
				return false, said
			}
		}
		return said != "", said
	})
}
