package bench

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
)

// pendingNamespace is where pods wait that fit nowhere: apart from those that count.
const pendingNamespace = "bench-pending"

// createPending creates pods that fit on no node, each of a kind of its own, as a hostile
// tenant would: what they cost the others is part of the result.
func (t *trial) createPending(ctx context.Context, count int) error {
	if count == 0 {
		return nil
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pendingNamespace}}
	if _, err := t.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", pendingNamespace, err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := t.client.CoreV1().ServiceAccounts(pendingNamespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create service account: %w", err)
	}
	return parallel(ctx, creators, count, func(ctx context.Context, i int) error {
		_, err := t.client.CoreV1().Pods(pendingNamespace).Create(ctx, t.pendingPod(i), metav1.CreateOptions{})
		return err
	})
}

func (t *trial) pendingPod(i int) *corev1.Pod {
	amount := func(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("waits-%06d", i)},
		Spec: corev1.PodSpec{
			SchedulerName: t.contender.schedulerName,
			Containers: []corev1.Container{{Name: "main", Image: "pause", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: amount(int64(100_000 + i)), names.ResourceNVIDIA: amount(1)},
				Limits:   corev1.ResourceList{names.ResourceNVIDIA: amount(1)},
			}}},
		},
	}
}
