package plugin

import (
	"context"
	"time"

	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// sampleEvery is how often availability is sampled: a fraction of the 15 s that a lease
// lasts.
const sampleEvery = 2 * time.Second

// sample tells again and again whether this process leads and whether the scheduler is
// available, until the context ends.
func (l *loop) sample(context.Context) {
	leads := l.leading()
	metrics.Sample(leads, l.fence.fresh() && !(leads && l.engine.Gate().Suspended()), time.Now())
}

// leading says whether this process decides and may write.
func (l *loop) leading() bool {
	select {
	case <-l.leads:
		return l.fence.check() == nil
	default:
		return false
	}
}
