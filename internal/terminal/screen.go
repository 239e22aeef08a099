package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Screen is where a command writes its answer (Out) and its progress (Err). What is
// written by its methods is cleaned; it must be one goroutine's.
type Screen struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminal and ErrTerminal say that Out and Err are terminals; Color that Out shows
	// colours.
	Terminal, ErrTerminal, Color bool
	// Size is the terminal's width and height now; 0, 0: not known, and nothing is cut.
	Size func() (width, height int)
	Now  func() time.Time
	// err is the first failed write.
	err error
}

// New finds out what a command's streams are. Colours need a terminal, no NO_COLOR
// (https://no-color.org) and a TERM other than dumb.
func New(in io.Reader, out, err io.Writer) *Screen {
	s := &Screen{In: in, Out: out, Err: err, Now: time.Now, Size: func() (int, int) { return 0, 0 }}
	_, s.ErrTerminal = terminalOf(err)
	if fd, ok := terminalOf(out); ok {
		s.Terminal = true
		s.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		s.Size = func() (int, int) {
			w, h, err := term.GetSize(fd)
			if err != nil {
				return 0, 0
			}
			return w, h
		}
	}
	return s
}

func terminalOf(stream any) (fd int, ok bool) {
	f, isFile := stream.(*os.File)
	if !isFile {
		return 0, false
	}
	return int(f.Fd()), term.IsTerminal(int(f.Fd()))
}

// Style is how text looks on a terminal with colours.
type Style string

// Styles, as parameters of the sequence "select graphic rendition".
const (
	Plain Style = ""
	Bold  Style = "1"
	Dim   Style = "2"
	Good  Style = "32"
	Warn  Style = "33"
	Bad   Style = "31"
	Blue  Style = "36"
)

// Paint is cleaned text in a style.
func (s *Screen) Paint(style Style, text string) string {
	text = Clean(text)
	if !s.Color || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Line writes one line; its text is cleaned.
func (s *Screen) Line(style Style, format string, args ...any) {
	s.raw(s.Paint(style, fmt.Sprintf(format, args...)) + "\n")
}

// Blank writes an empty line.
func (s *Screen) Blank() { s.raw("\n") }

// raw writes what is clean already.
func (s *Screen) raw(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.Out, text)
	}
}

// Failed is the first failed write.
func (s *Screen) Failed() error { return s.err }

// Field writes a name and text of any length beside it: wrapped at the terminal's width,
// the further lines indented. Outside a terminal it is one line.
func (s *Screen) Field(name string, width int, style Style, text string) {
	label := fmt.Sprintf("%-*s", width, name)
	columns, _ := s.Size()
	for i, line := range wrap(Clean(text), columns-width) {
		if i > 0 {
			label = strings.Repeat(" ", width)
		}
		s.raw(strings.TrimRight(s.Paint(Bold, label)+s.Paint(style, line), " ") + "\n")
	}
}

// wrap breaks text at spaces; a width of less than 20 columns is not worth it.
func wrap(text string, width int) []string {
	if width < 20 {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Split(text, " ") {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
