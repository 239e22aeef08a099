package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/planner"
)

// ErrNewer says that the text was written by a later version of the scheduler.
var ErrNewer = errors.New("written by a newer version")

// Decode reads what Encode wrote. It accepts no field that it does not know, and no value
// that Encode would not write for a state that can exist; an error names the field.
func Decode(data []byte) (*State, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%d bytes, at most %d", len(data), MaxBytes)
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	switch {
	case head.Version > Version:
		return nil, fmt.Errorf("version: %d: %w, this one reads %d", head.Version, ErrNewer, Version)
	case head.Version < 1:
		return nil, fmt.Errorf("version: %d, must be 1 to %d", head.Version, Version)
	}
	var t text
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more text follows the state")
	}
	s := t.state()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}

func (t *text) state() *State {
	s := &State{At: t.At, Learned: engine.Learned{Queues: arbiter.Saved{At: t.Elapsed}, Mix: planner.Mix{Saved: pack.Saved{Arrivals: t.Mix.Arrivals, Next: t.Mix.Next}}}}
	for _, q := range t.Queues {
		out := arbiter.SavedQueue{Queue: q.Queue, Parent: q.Parent, Owed: q.Owed, Part: q.Part, Held: q.Held}
		if q.Turns != nil {
			out.Turns.Clock, out.Turns.Forgotten = q.Turns.Clock, q.Turns.Forgotten
			for _, u := range q.Turns.Users {
				out.Turns.Users = append(out.Turns.Users, arbiter.SavedTurn{User: u.User, Served: u.Served})
			}
		}
		s.Learned.Queues.Queues = append(s.Learned.Queues.Queues, out)
	}
	for _, r := range t.Runtimes {
		s.Runtimes = append(s.Runtimes, arbiter.SavedRuntime{Key: arbiter.RuntimeKey{Owner: r.Owner, Shape: r.Shape}, Mean: time.Duration(r.Mean), Runs: r.Runs})
	}
	for _, m := range t.Mix.Models {
		s.Learned.Mix.Models = append(s.Learned.Mix.Models, planner.ModelName{Vendor: model.Vendor(m.Vendor), Model: m.Model, Memory: model.MiB(m.Memory)})
	}
	for _, c := range t.Mix.Classes {
		class := pack.Class{GPUs: c.GPUs, Milli: c.Milli, CPU: c.CPU, Memory: c.Memory, Models: pack.ModelSet(c.Models)}
		s.Learned.Mix.Classes = append(s.Learned.Mix.Classes, pack.SavedClass{Class: class, Count: c.Count, Built: c.Built})
	}
	return s
}
