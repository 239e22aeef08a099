package replay

import (
	"encoding/json"
	"fmt"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/engine"
)

// maxAnswers bounds how many answers of Facts are remembered to find out which are new: some
// hundred megabytes.
const maxAnswers = 1 << 20

// parts: newer is begun anew when it has this part of the limit, so that as a rule two thirds
// or more of the limit are in use.
const parts = 3

// Recorder writes down what an engine is told and decides. Not safe for concurrent use: the
// engine's owner calls it as it calls the engine.
type Recorder struct {
	engine  *engine.Engine
	version string
	// older and newer are whole lines, header first, together at most max bytes. Each can be
	// played by itself; newer goes on where older ends.
	older, newer []byte
	max          int
	// sink is given every line as well, but not what begins newer; nil: none is.
	sink  func(line []byte)
	facts *listening
	// ended says why nothing more is written down.
	ended string
}

// Record begins a recording of an engine that has been told nothing yet: the last lines, of at
// most so many bytes, in memory. Every line is passed to sink, if there is one, without a limit.
func Record(e *engine.Engine, version string, max int, sink func(line []byte)) (*Recorder, error) {
	r := &Recorder{engine: e, version: version, max: max, sink: sink}
	header, err := r.header()
	if err != nil {
		return nil, err
	}
	r.write(header)
	e.Record(r, func(f cluster.Facts) cluster.Facts {
		r.facts = &listening{real: f, known: newAnswers()}
		return r.facts
	})
	return r, nil
}

// header is the first line, as of now.
func (r *Recorder) header() ([]byte, error) {
	options := r.engine.Options()
	options.Facts = nil
	return json.Marshal(Header{Format: Format, Version: r.version, Options: options})
}

// Bytes is a copy of what is in memory.
func (r *Recorder) Bytes() []byte {
	if len(r.older) == 0 {
		return append([]byte(nil), r.newer...)
	}
	return append(append([]byte(nil), r.older...), withoutHeader(r.newer)...)
}

// Applied writes events down.
func (r *Recorder) Applied(now int64, events []engine.Event, out *engine.Outcome) {
	if r.ended != "" || len(events) == 0 {
		return
	}
	r.add(&Entry{At: now, Events: told(events), Did: out.String()})
}

// Stepped writes a step down.
func (r *Recorder) Stepped(now int64, plan *engine.Plan) {
	if r.ended != "" {
		return
	}
	r.add(&Entry{At: now, Did: plan.String()})
	if r.max > 0 && len(r.newer) > r.max/parts && r.ended == "" {
		r.turnOver(now)
	}
}

// turnOver begins newer anew, with a checkpoint, so that what is older can be dropped. If the
// engine is busy, it is tried again after the next step.
func (r *Recorder) turnOver(now int64) {
	if _, ready := r.engine.Checkpoint(); !ready {
		return
	}
	r.engine.Apply(now, engine.RulesChanged{}) // is recorded
	events, ready := r.engine.Checkpoint()
	header, err := r.header()
	if !ready || err != nil {
		return
	}
	text, err := json.Marshal(Entry{At: now, Checkpoint: true, Events: told(events)})
	switch {
	case err != nil:
		r.end(fmt.Sprintf("an event cannot be written: %v", err))
	case len(header)+len(text) > r.max/parts:
		r.end(fmt.Sprintf("the state alone takes %d bytes; the limit must be %d times as much", len(text), parts))
	default:
		r.older, r.newer = r.newer, fmt.Appendf(nil, "%s\n%s\n", header, text)
		r.bound(0)
		r.facts.known = newAnswers()
	}
}

func told(events []engine.Event) (out []Told) {
	for _, e := range events {
		out = append(out, Told{e})
	}
	return out
}

func (r *Recorder) add(entry *Entry) {
	entry.Facts, r.facts.fresh = r.facts.fresh, Answers{}
	text, err := json.Marshal(entry)
	switch {
	case err != nil:
		r.end(fmt.Sprintf("an event cannot be written: %v", err))
	case r.facts.known.count > maxAnswers:
		r.end(fmt.Sprintf("more than %d answers of Kubernetes' rules", maxAnswers))
	default:
		r.write(text)
	}
}

// write adds a line. A recording that has lost its beginning cannot be played, so one that is
// full, because the engine never rested, ends; what goes to a sink goes on.
func (r *Recorder) write(line []byte) {
	line = append(line, '\n')
	if r.sink != nil {
		r.sink(line)
	}
	r.bound(len(line))
	if len(r.newer)+len(line) > r.max {
		if r.sink == nil {
			r.end(fmt.Sprintf("the limit of %d bytes was reached, and pods were on their way all the time", r.max))
		}
		return
	}
	r.newer = append(r.newer, line...)
}

// bound drops what is older when there is no room for so many bytes more.
func (r *Recorder) bound(more int) {
	if len(r.older)+len(r.newer)+more > r.max {
		r.older = nil
	}
}

func (r *Recorder) end(why string) {
	if r.ended != "" {
		return
	}
	r.ended = why
	line, _ := json.Marshal(Entry{Ended: why}) // it has a string alone
	line = append(line, '\n')
	r.newer = append(r.newer, line...)
	if r.sink != nil {
		r.sink(line)
	}
}
