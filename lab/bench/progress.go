package bench

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress reports what the benchmark is doing: a line per phase, and on a terminal
// also one every second within a phase. Its methods may be called from any goroutine.
type progress struct {
	mu    sync.Mutex
	w     io.Writer
	live  bool
	begun time.Time
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, begun: time.Now()}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.live = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// phase prints a line that always shows.
func (p *progress) phase(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, "%6.1fs  %s\n", time.Since(p.begun).Seconds(), fmt.Sprintf(format, args...))
}

// second prints a line that only a terminal shows.
func (p *progress) second(format string, args ...any) {
	if p.live {
		p.phase(format, args...)
	}
}
