package engine

import (
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/replay"
)

// Record writes down what core of an engine is told and decides, from now on: at most so many bytes in
// memory, for dumps, and every line into sink, if there is one. It must be called before the
// first event is applied, or the recording cannot be played; a second call does nothing.
//
// The sink is called under the engine's lock.
func Record(e *Engine, version string, bytes int, sink func(line []byte)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.driver
	if d.recorder != nil {
		return nil
	}
	r, err := replay.Record(d.core, version, bytes, sink)
	if err != nil {
		return err
	}
	d.recorder = r
	d.tell(engine.QueuesSet{Queues: d.queues.tree}) // what core was made with
	return nil
}

// Recording is a copy of what was written down of an engine; nil where nothing is.
func Recording(e *Engine) (out []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.driver.recorder; r != nil {
		out = r.Bytes()
	}
	return out
}
