package sim

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// progress is a bar on a terminal, and silent elsewhere.
type progress struct {
	w     io.Writer
	live  bool
	shown string
}

const barWidth = 30

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.live = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// show draws the bar for a part of 0..1, and what is being done.
func (p *progress) show(part float64, what string) {
	if !p.live {
		return
	}
	full := min(max(int(part*barWidth), 0), barWidth)
	line := fmt.Sprintf("[%s%s] %3.0f%%  %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*part, what)
	if line == p.shown {
		return
	}
	p.shown = line
	fmt.Fprintf(p.w, "\r%s\x1b[K", line)
}

// clear removes the bar.
func (p *progress) clear() {
	if p.live && p.shown != "" {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
