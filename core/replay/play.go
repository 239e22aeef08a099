package replay

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/planner"
)

// Played is one entry, done again.
type Played struct {
	// Line is its number in the recording, the header being 1.
	Line int
	Entry
	// Now is what came of it this time.
	Now string
}

// Differs says whether it came out otherwise than in the recording.
func (p *Played) Differs() bool { return p.Now != p.Did }

// maxLine bounds one line: a node of 64 devices with all links is some kilobytes.
const maxLine = 64 << 20

// Play does a recording again on a new engine, and shows every entry. It ends without an
// error at the end of the recording, or when show says so by returning false.
func Play(recording io.Reader, show func(*Played) bool) (*engine.Engine, error) {
	lines := bufio.NewScanner(recording)
	lines.Buffer(nil, maxLine)
	var header Header
	if !lines.Scan() {
		return nil, errors.Join(lines.Err(), errors.New("line 1: a recording begins with its header"))
	}
	if err := json.Unmarshal(lines.Bytes(), &header); err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	if header.Format != Format {
		return nil, fmt.Errorf("line 1: tangramRecording: %d, but this program plays %d", header.Format, Format)
	}
	facts := newAnswers()
	header.Options.Facts = facts
	tree, err := arbiter.NewTree(nil, nil)
	if err != nil {
		return nil, err
	}
	l := ledger.New()
	e := engine.New(l, planner.New(l), tree, header.Options)
	for line := 2; lines.Scan(); line++ {
		p := Played{Line: line}
		if err := json.Unmarshal(lines.Bytes(), &p.Entry); err != nil && cutOff(lines.Text()) {
			p.Entry = Entry{Ended: "the process ended while it wrote the last line"}
		} else if err != nil {
			return e, fmt.Errorf("line %d: %w", line, err)
		}
		if p.Ended != "" {
			if !show(&p) {
				break
			}
			continue
		}
		if p.Checkpoint {
			*facts = *newAnswers()
			if line > 2 {
				continue
			}
		}
		facts.learn(&p.Facts)
		if err := p.do(e); err != nil {
			return e, fmt.Errorf("line %d: %w", line, err)
		}
		if p.Checkpoint {
			p.Did = p.Now // nothing was decided
		}
		if !show(&p) {
			break
		}
	}
	return e, lines.Err()
}

// withoutHeader is a recording without its first line.
func withoutHeader(lines []byte) []byte {
	return lines[1+slices.Index(lines, '\n'):]
}

// cutOff says whether text is the beginning of a line, and nothing else is wrong with it.
func cutOff(text string) bool {
	var any json.RawMessage
	return errors.Is(json.NewDecoder(strings.NewReader(text)).Decode(&any), io.ErrUnexpectedEOF)
}

// do does the entry again. A panic of the engine is an error that names the line: that is what
// a recording of a fault is played for.
func (p *Played) do(e *engine.Engine) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the engine panics: %v", r)
		}
	}()
	if len(p.Events) == 0 {
		p.Now = e.Step(p.At).String()
		return nil
	}
	events := make([]engine.Event, len(p.Events))
	for i := range p.Events {
		events[i] = p.Events[i].Event
	}
	p.Now = e.Apply(p.At, events...).String()
	return nil
}
