package terminal_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tangram-dev/tangram/internal/terminal"
)

// openPTY opens a pseudo-terminal of 80 by 24: what a person sits at, and the program's end.
func openPTY(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	return person, program
}

// On a terminal there are colours, unless the user wants none.
func TestTerminal(t *testing.T) {
	_, program := openPTY(t)
	for _, tt := range []struct {
		noColor, term string
		want          bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Setenv("NO_COLOR", tt.noColor)
		t.Setenv("TERM", tt.term)
		s := terminal.New(program, program, program)
		if !s.Terminal || !s.ErrTerminal || s.Color != tt.want {
			t.Errorf("NO_COLOR=%s TERM=%s: %v, %v, colour %v", tt.noColor, tt.term, s.Terminal, s.ErrTerminal, s.Color)
		}
		if w, h := s.Size(); w != 80 || h != 24 {
			t.Errorf("size %d by %d", w, h)
		}
	}
}

// A live screen reads single keys without echo, and leaves the terminal as it was.
func TestLiveOnATerminal(t *testing.T) {
	person, program := openPTY(t)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen bytes.Buffer
	shown := make(chan struct{})
	var once sync.Once
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := person.Read(b)
			mu.Lock()
			seen.Write(b[:n])
			if strings.Contains(seen.String(), "hello") {
				once.Do(func() { close(shown) })
			}
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		<-shown
		_, _ = io.WriteString(person, "q")
	}()
	s := terminal.New(program, program, program)
	err = s.Live(t.Context(), terminal.Live{Every: time.Hour, First: "a", Draw: func(_ context.Context, _ string, s *terminal.Screen) { s.Line(terminal.Good, "hello") }})
	if err != nil {
		t.Fatal(err)
	}
	after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if *before != *after {
		t.Errorf("the terminal's settings were %+v, and are %+v", before, after)
	}
}
