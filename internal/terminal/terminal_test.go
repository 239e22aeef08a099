package terminal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/internal/terminal"
)

func TestClean(t *testing.T) {
	tests := []struct{ in, want string }{
		{"a100-0: 8 of 16", "a100-0: 8 of 16"},
		{"队列 °C ├─", "队列 °C ├─"},
		{"\x1b[2Jx", `\x1b[2Jx`},
		{"a\nb\tc\rd", `a\nb\tc\x0dd`},
		{"\u009b31m", `\u009b31m`},
		{"\u202egnp\u2066", `\u202egnp\u2066`},
		{"\xff\xfe", `\xff\xfe`},
		{"\x7f\x00", `\x7f\x00`},
		{"\U000e0041", `\U000e0041`}, // an invisible tag
	}
	for _, tt := range tests {
		if got := terminal.Clean(tt.in); got != tt.want {
			t.Errorf("Clean(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// Nothing that Clean returns is anything but printable, whatever goes in; and what is
// printable stays.
func TestCleanIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		out := terminal.Clean(in)
		if !utf8.ValidString(out) {
			t.Fatalf("Clean(%q) = %q is no UTF-8", in, out)
		}
		for _, r := range out {
			if r != ' ' && !unicode.IsGraphic(r) && !unicode.IsPrint(r) && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
				t.Fatalf("Clean(%q) has %U", in, r)
			}
		}
		if terminal.Clean(out) != out {
			t.Fatalf("Clean(%q) is not clean", in)
		}
	})
}

// JSON means the same after it was made safe to print.
func TestJSONMeansTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text") + rapid.SampledFrom([]string{"", "\u009b", "\u202e", "\U000e0041", "\x7f"}).Draw(t, "bad")
		var raw bytes.Buffer
		e := json.NewEncoder(&raw)
		e.SetEscapeHTML(false)
		if err := e.Encode(map[string]string{"a": text}); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		s := terminal.New(nil, &out, io.Discard)
		if err := s.JSON(raw.Bytes()); err != nil {
			t.Fatal(err)
		}
		var got, want map[string]string
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		if got["a"] != want["a"] || strings.ContainsFunc(strings.ReplaceAll(out.String(), "\n", ""), unicode.IsControl) {
			t.Fatalf("%q became %q (%s)", text, got["a"], out.String())
		}
	})
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	s := terminal.New(nil, &out, io.Discard)
	table := terminal.NewTable("NAME", ">N", "LAST")
	table.Add("a", "1", "x")
	table.Add(terminal.Cell{Text: "längere", Style: terminal.Bad}, "1000")
	table.Write(s)
	want := "NAME         N   LAST\na            1   x\nlängere   1000\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// A terminal that is too narrow for a table gets all of its names and texts, and no line
// that is too long where there is another way.
func TestTableFitsTerminal(t *testing.T) {
	long := "waits for capacity: 0/16 nodes fit: 4 have too few free GPUs (0 of 1)"
	write := func(width int) string {
		var out bytes.Buffer
		s := terminal.New(nil, &out, io.Discard)
		s.Size = func() (int, int) { return width, 24 }
		table := terminal.NewTable("NAME", "KIND", ">N", "REASON")
		table.Optional("KIND")
		table.Add("inference-service", "ReplicaSet", "1", long)
		table.Add("other", "Job", "100", "-")
		table.Write(s)
		return out.String()
	}
	tests := []struct {
		width int
		want  string
	}{
		{0, `NAME                KIND           N   REASON
inference-service   ReplicaSet     1   ` + long + `
other               Job          100   -
`},
		{80, `NAME               KIND          N  REASON
inference-service  ReplicaSet    1  waits for capacity: 0/16 nodes fit: 4 have
                                    too few free GPUs (0 of 1)
other              Job         100  -
`},
		{50, `NAME               KIND          N
inference-service  ReplicaSet    1
    reason: waits for capacity: 0/16 nodes fit: 4
    have too few free GPUs (0 of 1)
other              Job         100
`},
		{30, `NAME                 N
inference-service    1
    reason: waits for
    capacity: 0/16 nodes fit:
    4 have too few free GPUs
    (0 of 1)
other              100
Not shown, for the terminal is too narrow: KIND.
`},
	}
	for _, tt := range tests {
		if got := write(tt.width); got != tt.want {
			t.Errorf("%d columns:\n%s\nwant:\n%s", tt.width, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 200).Draw(t, "width")
		if got := write(width); !strings.Contains(got, "inference-service") || !strings.Contains(strings.Join(strings.Fields(got), " "), "GPUs (0 of 1)") {
			t.Fatalf("%d columns: a name or a text is cut:\n%s", width, got)
		}
	})
}

// Neither a pipe nor a buffer is a terminal: no colour.
func TestNoTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, out := range []io.Writer{&bytes.Buffer{}, w} {
		if s := terminal.New(nil, out, out); s.Terminal || s.Color || s.ErrTerminal {
			t.Errorf("%T: %+v", out, s)
		}
	}
	s := terminal.New(nil, &bytes.Buffer{}, io.Discard)
	if got := s.Paint(terminal.Bad, "x"); got != "x" {
		t.Errorf("painted %q", got)
	}
	s.Color = true
	if got := s.Paint(terminal.Bad, "x\x1b[0m"); got != "\x1b[31mx\\x1b[0m\x1b[0m" {
		t.Errorf("painted %q", got)
	}
}

// Progress says nothing within a second, one line in a log, and on a terminal a line that
// is gone at the end.
func TestProgress(t *testing.T) {
	for _, tt := range []struct {
		after    time.Duration
		terminal bool
		want     string
	}{
		{900 * time.Millisecond, false, ""},
		{900 * time.Millisecond, true, ""},
		{5 * time.Second, false, "asking\n"},
		{1700 * time.Millisecond, true, "\r\x1b[Kasking (1 s)\r\x1b[Kasking (1 s)\r\x1b[K"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			s := terminal.New(nil, io.Discard, &out)
			s.ErrTerminal = tt.terminal
			p := s.Progress("asking")
			time.Sleep(tt.after) // of the test's own clock
			p.End()
			if out.String() != tt.want {
				t.Errorf("after %v, terminal %v: %q, want %q", tt.after, tt.terminal, out.String(), tt.want)
			}
		})
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		in    string
		width int
		want  string
	}{
		{"abcdef", 3, "abc"},
		{"abc", 3, "abc"},
		{"abcdef", 0, "abcdef"},
		{"\x1b[31mabc\x1b[0mdef", 2, "\x1b[31mab\x1b[0m"},
		{"\x1b[31mabc\x1b[0m", 3, "\x1b[31mabc\x1b[0m"},
		{"äöüß", 2, "äö"},
	} {
		if got := terminal.Cut(tt.in, tt.width); got != tt.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.in, tt.width, got, tt.want)
		}
	}
}

// typist types a key each time the screen shows what it waits for.
type typist struct {
	mu    sync.Mutex
	cond  *sync.Cond
	shown bytes.Buffer
	steps []step
}

type step struct {
	see string
	key byte
}

func (y *typist) Write(p []byte) (int, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.cond.Broadcast()
	return y.shown.Write(p)
}

func (y *typist) Read(p []byte) (int, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.steps) == 0 {
		return 0, io.EOF
	}
	for !strings.Contains(y.shown.String(), y.steps[0].see) {
		y.cond.Wait()
	}
	y.shown.Reset()
	p[0] = y.steps[0].key
	y.steps = y.steps[1:]
	return 1, nil
}

// A live screen is drawn again and again, scrolls, changes views by keys, cuts what does
// not fit, and gives the terminal back.
func TestLive(t *testing.T) {
	y := &typist{steps: []step{
		{"\x1b[Hfirst: line 0", 'j'}, // drawn
		{"\x1b[Hfirst: line 1", 'x'}, // scrolled; x does nothing
		{"first: again", 'k'},        // drawn again by itself
		{"\x1b[Hfirst: line 0", 's'},
		{"\x1b[Hsecond: line 0", 'q'}, // another view
	}}
	y.cond = sync.NewCond(&y.mu)
	s := terminal.New(y, y, io.Discard)
	s.Terminal = true
	s.Size = func() (int, int) { return 16, 4 }
	n := map[string]int{}
	err := s.Live(t.Context(), terminal.Live{
		Every: 5 * time.Millisecond, First: "first", Views: map[byte]string{'s': "second"}, Help: "q quit, and a long help",
		Draw: func(_ context.Context, view string, s *terminal.Screen) {
			n[view]++
			for i := range 10 {
				text := fmt.Sprintf("%s: line %d and more", view, i)
				if i == 2 && n[view] > 1 {
					text = view + ": again"
				}
				s.Line(terminal.Plain, "%s", text)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	rest := y.shown.String()
	if !strings.HasSuffix(rest, "\x1b[?25h\x1b[?1049l") {
		t.Errorf("the terminal is not given back: %q", rest)
	}
	if strings.Contains(rest, "and more") || strings.Contains(rest, "line 5") {
		t.Errorf("lines are not cut: %q", rest)
	}
}

// Live ends when its context does, whatever is being drawn.
func TestLiveEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	s := terminal.New(r, io.Discard, io.Discard)
	err := s.Live(ctx, terminal.Live{Every: time.Hour, First: "a", Draw: func(ctx context.Context, _ string, s *terminal.Screen) {
		cancel()
		<-ctx.Done()
		fmt.Fprint(io.Discard, s.Failed())
	}})
	if err != nil {
		t.Error(err)
	}
	_ = r.Close()
}
