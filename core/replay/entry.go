package replay

import (
	"encoding/json"
	"fmt"

	"github.com/tangram-dev/tangram/core/cluster"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// Format is the version of recordings that this package writes and plays.
const Format = 1

// Header is the first line of a recording.
type Header struct {
	Format int `json:"tangramRecording"`
	// Version is the build that made it.
	Version string `json:"version,omitempty"`
	// Options are the engine's when the recording began, without Facts.
	Options engine.Options `json:"options"`
}

// Entry is one call of the engine.
type Entry struct {
	// At is the time of the call, in nanoseconds.
	At int64 `json:"at"`
	// Events were applied; none: it was a step.
	Events []Told `json:"events,omitempty"`
	// Checkpoint: the events bring a new engine to where the recorded one was. An engine that
	// has played what is before leaves them out.
	Checkpoint bool `json:"checkpoint,omitempty"`
	// Facts are answers that were given during the call and are others than before.
	Facts Answers `json:"facts,omitzero"`
	// Did is what came of it: the text of the plan, or of the outcome.
	Did string `json:"did,omitempty"`
	// Ended says why nothing follows; empty but in the last line.
	Ended string `json:"ended,omitempty"`
}

// Told is an event with the name of its kind.
type Told struct{ Event engine.Event }

// MarshalJSON writes {"kind": {...}}.
func (t Told) MarshalJSON() ([]byte, error) {
	k := kindOf(t.Event)
	if k == nil {
		return nil, fmt.Errorf("event %T has no row in core/replay/kinds.go", t.Event)
	}
	return json.Marshal(map[string]engine.Event{k.name: t.Event})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *Told) UnmarshalJSON(text []byte) error {
	var one map[string]json.RawMessage
	if err := json.Unmarshal(text, &one); err != nil {
		return err
	}
	for name, body := range one {
		for i := range kinds {
			if kinds[i].name == name {
				var err error
				t.Event, err = kinds[i].read(body)
				return err
			}
		}
		return fmt.Errorf("unknown kind of event %q", name)
	}
	return fmt.Errorf("an event without a kind")
}

// Answers are answers of Facts.
type Answers struct {
	May     []MayAnswer    `json:"may,omitempty"`
	Apart   []ApartAnswer  `json:"apart,omitempty"`
	Budgets []BudgetAnswer `json:"budgets,omitempty"`
}

// MayAnswer is why a node does not take a shape; no Why: it does.
type MayAnswer struct {
	Shape model.Shape      `json:"shape"`
	Node  model.NodeID     `json:"node"`
	Why   *explain.Refusal `json:"why,omitempty"`
}

// ApartAnswer is why two shapes may not share a node; empty: they may.
type ApartAnswer struct {
	A   model.Shape `json:"a"`
	B   model.Shape `json:"b"`
	Why string      `json:"why,omitempty"`
}

// BudgetAnswer are the budgets of a holder.
type BudgetAnswer struct {
	Holder  model.HolderID   `json:"holder"`
	Budgets []cluster.Budget `json:"budgets,omitempty"`
}

// String is the event in words: its kind, and what it says as JSON.
func (t Told) String() string {
	text, err := json.Marshal(t.Event)
	if k := kindOf(t.Event); err == nil && k != nil {
		return k.name + " " + string(text)
	}
	return fmt.Sprintf("%T", t.Event)
}
