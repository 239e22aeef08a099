package plugin

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/names"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// checkItself checks until the context ends. It does not block.
func (s *Shared) checkItself(ctx context.Context) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	checker := s.Engine().Checker()
	go func() {
		defer signal.Stop(signals)
		logger := klog.FromContext(ctx)
		now := time.NewTicker(s.tuning.check.every)
		defer now.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-now.C:
				s.checkSome(ctx, checker)
			case <-signals:
				if holders, err := checker.All(); err != nil {
					logger.Error(err, "Ledger check failed")
				} else {
					logger.Info("Ledger check passed: it equals the records; limits, gangs and lost pods checked", "holders", holders)
				}
			}
		}
	}()
}

// checkSome reports a difference that stays.
func (s *Shared) checkSome(ctx context.Context, checker *kubeengine.Checker) {
	holders, node, err := checker.Some(s.tuning.check.nodes)
	if err == nil {
		klog.FromContext(ctx).Info("Periodic ledger check passed: some nodes, all limits, gangs and lost pods checked", "holders", holders)
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(s.tuning.check.again):
	}
	if _, again := checker.All(); again == nil {
		return
	}
	metrics.CheckFailed("periodic")
	klog.FromContext(ctx).Error(err, "Periodic ledger check failed")
	if node != nil {
		ref := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
		s.recorders.of(names.SchedulerName).Eventf(ref, nil, v1.EventTypeWarning, "LedgerDiffers", "Checking", "%s", err.Error())
	}
}
