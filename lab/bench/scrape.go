package bench

import (
	"context"
	"fmt"
	"io"
	"time"
)

// scrape reads a contender's metrics again and again until the context ends, as
// Prometheus would; only of Tangram, which lets this client.
func (t *trial) scrape(ctx context.Context) {
	if t.config.Scrape == 0 || !t.contender.records {
		return
	}
	ticks := time.NewTicker(t.config.Scrape)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if body, err := get(ctx, fmt.Sprintf("%s://127.0.0.1:%d/metrics", t.contender.scheme, t.port)); err == nil {
			_, _ = io.Copy(io.Discard, body) // a scrape that fails is the next one's business
			body.Close()
		}
	}
}
