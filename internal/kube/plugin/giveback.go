package plugin

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	kubeclaims "github.com/tangram-dev/tangram/internal/kube/claims"
)

// giveBack deallocates claims that failed starts left behind.
func (l *loop) giveBack(ctx context.Context, list []kubeclaims.GiveBack) {
	for _, g := range list {
		err := l.deallocate(ctx, &g)
		if err != nil {
			klog.FromContext(ctx).Info("Claim of a start that failed not given back yet", "resourceclaim", klog.KObj(g.Claim), "cause", err.Error())
		} else {
			klog.FromContext(ctx).Info("Claim of a start that failed given back", "resourceclaim", klog.KObj(g.Claim))
		}
		l.engine.GaveBack(g.Key(), err != nil)
	}
}

// deallocate clears a claim's allocation, if the claim is as it was seen and none of its pods
// is bound by now: what the API server says counts. A start that reserves the claim at the
// same moment changes its resource version, so one of both writes fails.
func (l *loop) deallocate(ctx context.Context, g *kubeclaims.GiveBack) error {
	for _, p := range g.Pods {
		now, err := l.client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case now.UID == p.UID && now.Spec.NodeName != "" && now.Status.Phase != v1.PodSucceeded && now.Status.Phase != v1.PodFailed:
			return fmt.Errorf("pod %s is bound to node %s", p.Name, now.Spec.NodeName)
		}
	}
	if err := l.fence.check(); err != nil {
		return err
	}
	c := g.Claim.DeepCopy()
	c.Status.Allocation, c.Status.ReservedFor, c.Status.Devices = nil, nil, nil
	if _, err := l.client.ResourceV1().ResourceClaims(c.Namespace).UpdateStatus(ctx, c, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
