package terminal

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// slow is how long something may take without a word about it.
const slow = time.Second

// Progress says on a terminal or in a log that something takes long: nothing within the
// first second; then, on a terminal, a line that is renewed and removed at the end, else
// one line.
type Progress struct {
	w        io.Writer
	terminal bool
	stop     chan struct{}
	ended    sync.WaitGroup

	mu   sync.Mutex
	text string
}

// Progress begins to watch something; End ends it.
func (s *Screen) Progress(text string) *Progress {
	p := &Progress{w: s.Err, terminal: s.ErrTerminal, stop: make(chan struct{}), text: text}
	began := time.Now()
	p.ended.Go(func() { p.run(began) })
	return p
}

// Set changes the text.
func (p *Progress) Set(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = fmt.Sprintf(format, args...)
}

// End ends it and removes its line.
func (p *Progress) End() {
	close(p.stop)
	p.ended.Wait()
}

func (p *Progress) run(began time.Time) {
	const renew = 500 * time.Millisecond
	shown := false
	for wait := slow; ; wait = renew {
		select {
		case <-p.stop:
			if shown && p.terminal {
				fmt.Fprint(p.w, "\r\x1b[K")
			}
			return
		case <-time.After(wait):
		}
		p.mu.Lock()
		text := Clean(p.text)
		p.mu.Unlock()
		switch {
		case p.terminal:
			fmt.Fprintf(p.w, "\r\x1b[K%s (%d s)", text, int(time.Since(began).Seconds()))
		case !shown:
			fmt.Fprintf(p.w, "%s\n", text)
		}
		shown = true
	}
}
