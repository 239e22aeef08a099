package plugin

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
)

// checkOnSignal compares the ledger with the API whenever the process gets
// SIGUSR2, the signal on which kube-scheduler checks its own cache, and logs the
// verdict.
func (s *Shared) checkOnSignal(ctx context.Context) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	go func() {
		defer signal.Stop(signals)
		logger := klog.FromContext(ctx)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
				if holders, err := s.Engine().Check(); err != nil {
					logger.Error(err, "Ledger check failed")
				} else {
					logger.Info("Ledger check passed: it equals the records", "holders", holders)
				}
			}
		}
	}()
}
