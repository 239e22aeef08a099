package chaos

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// loseNodes takes one or two nodes away and brings them back: in half of the cases
// before the control plane deletes their pods, in the other after it.
func (f *faults) loseNodes(ctx context.Context) error {
	nodes := f.w.loadNodes()
	lost := []string{nodes[f.random.IntN(len(nodes))]}
	if other := nodes[f.random.IntN(len(nodes))]; f.random.IntN(2) == 0 && other != lost[0] {
		lost = append(lost, other)
	}
	for _, node := range lost {
		err := retry(ctx, func(ctx context.Context) error {
			err := f.w.client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
		f.w.checker.NodeLost(time.Now(), node)
	}
	away := time.Duration(3+f.random.IntN(8)) * time.Second
	if f.random.IntN(2) == 0 && f.w.cfg.Duration >= 5*time.Minute {
		away = 60*time.Second + away // kube-controller-manager deletes orphans after 40 s
	}
	select {
	case <-ctx.Done():
	case <-time.After(away):
	}
	for _, node := range lost {
		if err := retry(ctx, func(ctx context.Context) error { return f.w.createNode(ctx, node) }); err != nil {
			return err
		}
		f.w.checker.NodeLost(time.Now(), node) // what was bound until now may still be deleted
		f.w.checker.Note(time.Now(), fmt.Sprintf("node %s is back after %s", node, away))
	}
	return nil
}

// retry calls f until it succeeds, for up to a minute.
func retry(ctx context.Context, f func(context.Context) error) error {
	deadline := time.Now().Add(time.Minute)
	for {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		err := f(call)
		cancel()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}
