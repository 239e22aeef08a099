package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/internal/metrictable"
)

// Dropped describes the counter of entries that were not written, for
// docs/reference/metrics.md.
var Dropped = metrictable.NewCounter("tangram_audit_dropped_total", "entries", "the audit log",
	"Entries of the audit log that were not written, by cause: the buffer was full, or writing failed.",
	metrictable.By("cause", "buffer, write"))

var dropped = metrics.NewCounterVec(&metrics.CounterOpts{Name: Dropped.Name, Help: Dropped.Help, StabilityLevel: metrics.ALPHA}, Dropped.LabelNames())

var registerOnce sync.Once

// RegisterMetrics makes the log's metrics appear at the scheduler's /metrics.
func RegisterMetrics() {
	registerOnce.Do(func() {
		legacyregistry.MustRegister(dropped)
		for _, cause := range []string{"buffer", "write"} {
			dropped.WithLabelValues(cause)
		}
	})
}

// Log is an audit log. A nil Log takes no entries. Add is safe for concurrent use.
type Log struct {
	entries chan Entry
	out     io.Writer
	drains  chan chan struct{} // callers that wait until all is written
}

// New returns a log that writes to out, with room for so many entries that wait to be
// written. Run writes them.
func New(out io.Writer, buffer int) *Log {
	return &Log{entries: make(chan Entry, buffer), out: out, drains: make(chan chan struct{})}
}

// On says whether entries are wanted.
func (l *Log) On() bool { return l != nil }

// Add takes an entry, or drops it when too many wait. It does not block.
func (l *Log) Add(e Entry) {
	if l == nil {
		return
	}
	select {
	case l.entries <- e:
	default:
		dropped.WithLabelValues("buffer").Inc()
	}
}

// Drain waits until what was added is written, or the context ends. Run must be running.
func (l *Log) Drain(ctx context.Context) {
	done := make(chan struct{})
	select {
	case l.drains <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Run writes entries until the context ends, and then those that still wait.
func (l *Log) Run(ctx context.Context) {
	w := &lines{out: l.out, logger: klog.FromContext(ctx)}
	for {
		select {
		case e := <-l.entries:
			w.write(e)
		case done := <-l.drains:
			l.flush(w)
			close(done)
		case <-ctx.Done():
			l.flush(w)
			return
		}
	}
}

func (l *Log) flush(w *lines) {
	for {
		select {
		case e := <-l.entries:
			w.write(e)
		default:
			return
		}
	}
}

// lines writes entries, one per line.
type lines struct {
	out    io.Writer
	logger klog.Logger
	// problem is what was last logged.
	problem string
	buffer  bytes.Buffer
}

// write writes one line in one call, so that a line is whole or not there.
func (w *lines) write(e Entry) {
	w.buffer.Reset()
	encoder := json.NewEncoder(&w.buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(e)
	if err == nil {
		_, err = w.out.Write(w.buffer.Bytes())
	}
	switch {
	case err == nil && w.problem != "":
		w.logger.Info("Audit log is written again")
		w.problem = ""
	case err != nil:
		dropped.WithLabelValues("write").Inc()
		if err.Error() != w.problem {
			w.problem = err.Error()
			w.logger.Error(err, "Audit log not written: entries are dropped and counted")
		}
	}
}
