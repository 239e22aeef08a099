package terminal

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Sequences that a terminal is driven with; nothing but these and colours is ever sent.
const (
	enter    = "\x1b[?1049h\x1b[?25l" // the other screen, no cursor
	leave    = "\x1b[?25h\x1b[?1049l"
	home     = "\x1b[H"
	restLine = "\x1b[K"
	restAll  = "\x1b[J"
)

// Live is something that is shown again and again.
type Live struct {
	// Every is between the end of one drawing and the start of the next.
	Every time.Duration
	// Views are chosen by keys; First is shown first.
	Views map[byte]string
	First string
	// Draw writes a view. It is called in a goroutine of its own, one at a time, with a
	// context that ends when another view is chosen.
	Draw func(ctx context.Context, view string, s *Screen)
	// Help is the last line.
	Help string
}

// Live shows a view until q or Ctrl-C is pressed, input ends or the context does. Lines
// beyond the terminal's size are cut; j, k, space and b scroll.
func (s *Screen) Live(ctx context.Context, l Live) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if fd, ok := terminalOf(s.In); ok {
		before, err := term.MakeRaw(fd)
		if err != nil {
			return err
		}
		defer func() { _ = term.Restore(fd, before) }()
	}
	s.raw(enter)
	defer func() { _, _ = io.WriteString(s.Out, leave) }()
	keys := readKeys(ctx, s.In)

	view, from := l.First, 0
	var lines []string
	frames := make(chan []string)
	drawing := newDrawing(ctx)
	go l.draw(drawing.ctx, view, s, frames, 0)
	for s.err == nil {
		select {
		case <-ctx.Done():
			return nil
		case lines = <-frames:
			go l.draw(drawing.ctx, view, s, frames, l.Every)
		case key, ok := <-keys:
			_, height := s.Size()
			page := max(height-2, 1)
			switch {
			case !ok || key == 'q' || key == 3:
				return nil
			case key == 'j':
				from++
			case key == 'k':
				from--
			case key == ' ':
				from += page
			case key == 'b':
				from -= page
			case l.Views[key] != "" && l.Views[key] != view:
				drawing.stop()
				view, from, lines = l.Views[key], 0, nil
				drawing = newDrawing(ctx)
				go l.draw(drawing.ctx, view, s, frames, 0)
			}
		}
		from = s.show(lines, from, l.Help)
	}
	return s.err
}

// drawing is the work on one view; it ends with the parent's context at the latest.
type drawing struct {
	ctx  context.Context
	stop context.CancelFunc
}

func newDrawing(parent context.Context) drawing {
	ctx, stop := context.WithCancel(parent)
	return drawing{ctx, stop}
}

// draw renders one frame after a while and hands it over, unless its context ends first.
func (l *Live) draw(ctx context.Context, view string, s *Screen, frames chan<- []string, after time.Duration) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(after):
	}
	var b bytes.Buffer
	page := *s
	page.Out, page.Err, page.ErrTerminal, page.err = &b, io.Discard, false, nil
	l.Draw(ctx, view, &page)
	select {
	case <-ctx.Done():
	case frames <- strings.Split(strings.TrimRight(b.String(), "\n"), "\n"):
	}
}

// show writes lines from one on, as many as fit, and returns the first line shown.
func (s *Screen) show(lines []string, from int, help string) int {
	width, height := s.Size()
	if height < 3 {
		height = len(lines) + 2
	}
	room := height - 1
	from = max(0, min(from, len(lines)-room))
	var b strings.Builder
	b.WriteString(home)
	for i := range room {
		if from+i < len(lines) {
			b.WriteString(Cut(lines[from+i], width))
		}
		b.WriteString(restLine + "\r\n")
	}
	b.WriteString(s.Paint(Dim, Cut(help, width)) + restLine + restAll)
	s.raw(b.String())
	return from
}

// Cut shortens a line to a width; colours take none. 0: it is not shortened.
func Cut(line string, width int) string {
	if width <= 0 {
		return line
	}
	var b strings.Builder
	n, colored := 0, false
	for i := 0; i < len(line); {
		if strings.HasPrefix(line[i:], "\x1b[") {
			end := strings.IndexByte(line[i:], 'm')
			if end < 0 {
				break
			}
			b.WriteString(line[i : i+end+1])
			colored = true
			i += end + 1
			continue
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		if n == width {
			if colored {
				b.WriteString("\x1b[0m")
			}
			return b.String()
		}
		b.WriteString(line[i : i+size])
		n++
		i += size
	}
	return b.String()
}

// readKeys sends what is typed, byte by byte. The channel is closed at the end of input.
func readKeys(ctx context.Context, in io.Reader) <-chan byte {
	keys := make(chan byte)
	if in == nil {
		in = os.Stdin
	}
	go func() {
		defer close(keys)
		var b [1]byte
		for {
			n, err := in.Read(b[:])
			if n > 0 {
				select {
				case keys <- b[0]:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return keys
}
