package state

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/pack"
	"github.com/tangram-dev/tangram/core/planner"
)

// Bounds of the text, in bytes. Each part has its own, so that none can crowd out another:
// users and job images are chosen by tenants.
const (
	// MaxBytes is the most that Encode returns and Decode reads. An API object may have a
	// MiB; a quarter of it keeps every write cheap.
	MaxBytes = 248 << 10

	maxQueues   = 64 << 10
	maxUsers    = 32 << 10
	maxRuntimes = 80 << 10
	maxMix      = 64 << 10
	// maxName is the longest name of a user, owner, shape, queue or model that is kept.
	maxName = 1 << 10
)

// text is the JSON form of a State. Names are short: there are many of each.
type text struct {
	Version  int           `json:"version"`
	At       int64         `json:"at"`
	Elapsed  int64         `json:"elapsed"`
	Queues   []queueText   `json:"queues"`
	Runtimes []runtimeText `json:"runtimes"`
	Mix      mixText       `json:"mix"`
}

type queueText struct {
	Queue  string                     `json:"queue"`
	Parent string                     `json:"parent"`
	Owed   map[arbiter.Resource]int64 `json:"owed,omitempty"`
	Part   map[arbiter.Resource]int64 `json:"part,omitempty"`
	Held   map[arbiter.Resource]int64 `json:"held,omitempty"`
	Turns  *turnsText                 `json:"turns,omitempty"`
}

type turnsText struct {
	Clock     int64      `json:"clock"`
	Forgotten int64      `json:"forgotten"`
	Users     []userText `json:"users,omitempty"`
}

type userText struct {
	User   string `json:"user"`
	Served int64  `json:"served"`
}

type runtimeText struct {
	Owner string `json:"owner,omitempty"`
	Shape string `json:"shape,omitempty"`
	Mean  int64  `json:"mean"`
	Runs  int64  `json:"runs"`
}

type mixText struct {
	Arrivals int64       `json:"arrivals"`
	Next     int64       `json:"next"`
	Models   []modelText `json:"models,omitempty"`
	Classes  []classText `json:"classes,omitempty"`
}

type modelText struct {
	Vendor string `json:"vendor"`
	Model  string `json:"model"`
	Memory int64  `json:"memory"`
}

type classText struct {
	GPUs   uint8  `json:"gpus"`
	Milli  uint16 `json:"milli"`
	CPU    int64  `json:"cpu"`
	Memory int64  `json:"memory"`
	Models uint64 `json:"models,omitempty"`
	Count  int64  `json:"count"`
	Built  int64  `json:"built"`
}

// Left says how many entries did not fit into the bounds.
type Left struct{ Queues, Users, Runtimes, Classes int }

// Encode returns the state as JSON of at most MaxBytes, and what was left out for that:
// the smallest balances, the users served longest ago, the runtimes at the end of the list,
// the rarest classes. Same state, same bytes.
func (s *State) Encode() ([]byte, Left, error) {
	var left Left
	t := text{
		Version: Version, At: s.At, Elapsed: s.Learned.Queues.At,
		Queues: []queueText{}, Runtimes: []runtimeText{},
	}
	t.Queues, left.Queues = within(maxQueues, s.Learned.Queues.Queues, func(q arbiter.SavedQueue) (queueText, bool) {
		out := queueText{Queue: q.Queue, Parent: q.Parent, Owed: q.Owed, Part: q.Part, Held: q.Held}
		if q.Turns.Clock > 0 {
			out.Turns = &turnsText{Clock: q.Turns.Clock, Forgotten: q.Turns.Forgotten}
		}
		return out, len(q.Queue)+len(q.Parent) <= 2*maxName
	})
	left.Users = s.encodeUsers(t.Queues)
	t.Runtimes, left.Runtimes = within(maxRuntimes, s.Runtimes, func(r arbiter.SavedRuntime) (runtimeText, bool) {
		return runtimeText{r.Key.Owner, r.Key.Shape, int64(r.Mean), r.Runs}, len(r.Key.Owner)+len(r.Key.Shape) <= maxName
	})
	t.Mix, left.Classes = encodeMix(&s.Learned.Mix)
	out, err := json.Marshal(t)
	if err != nil {
		return nil, left, err
	}
	if len(out) > MaxBytes {
		return nil, left, fmt.Errorf("%d bytes, at most %d", len(out), MaxBytes)
	}
	return out, left, nil
}

// encodeUsers adds users to queues: as many of each queue as of any other.
func (s *State) encodeUsers(queues []queueText) (left int) {
	of, with := map[string]*arbiter.SavedTurns{}, 0
	for i := range s.Learned.Queues.Queues {
		q := &s.Learned.Queues.Queues[i]
		of[q.Queue] = &q.Turns
	}
	for _, q := range queues {
		if len(of[q.Queue].Users) > 0 {
			with++
		}
	}
	for i := range queues {
		turns := of[queues[i].Queue]
		if len(turns.Users) == 0 {
			continue
		}
		users, out := within(maxUsers/with, turns.Users, func(u arbiter.SavedTurn) (userText, bool) {
			return userText{u.User, u.Served}, len(u.User) <= maxName
		})
		left += out
		queues[i].Turns.Users = users
		kept := map[string]bool{}
		for _, u := range users {
			kept[u.User] = true
		}
		for _, u := range turns.Users { // those that are unknown from now on start no earlier than they would
			if !kept[u.User] {
				queues[i].Turns.Forgotten = max(queues[i].Turns.Forgotten, u.Served)
			}
		}
	}
	return left
}

func encodeMix(m *planner.Mix) (mixText, int) {
	out := mixText{Arrivals: m.Arrivals, Next: m.Next}
	budget := maxMix
	for _, n := range m.Models { // fewer than 64
		if len(n.Model)+len(n.Vendor) > maxName/4 {
			n = planner.ModelName{} // its place is needed: sets count by it
		}
		row := modelText{string(n.Vendor), n.Model, int64(n.Memory)}
		budget -= size(row)
		out.Models = append(out.Models, row)
	}
	var left int
	out.Classes, left = within(budget, m.Classes, func(c pack.SavedClass) (classText, bool) {
		return classText{c.Class.GPUs, c.Class.Milli, c.Class.CPU, c.Class.Memory, uint64(c.Class.Models), c.Count, c.Built}, true
	})
	return out, left
}

// within translates a list, as far as its JSON has room; entries for which the translation
// says so are left out. It returns how many were.
func within[A, B any](budget int, list []A, translate func(A) (B, bool)) (out []B, left int) {
	out = []B{}
	for i, a := range list {
		b, fits := translate(a)
		if !fits {
			left++
			continue
		}
		if budget -= size(b); budget < 0 {
			return out, left + len(list) - i
		}
		out = append(out, b)
	}
	return out, left
}

// size is how many bytes an entry of a list takes, with its comma. What cannot be encoded
// takes more than there is.
func size(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return math.MaxInt32
	}
	return len(b) + 1
}
