package records

import (
	"fmt"
	"strconv"
	"strings"
)

// ID is what a device ID of the agent's own device plugin means. Kubelet keeps IDs in
// its checkpoint and returns them in every call, so an ID says all that a container
// gets, except amounts of memory and compute.
type ID struct {
	// UUID is the GPU's, or that of a MIG instance that exists already.
	UUID string
	Kind Kind
	// Turn numbers the turns on a GPU; of kind Turn only.
	Turn int
	// Profile and Start are of a MIG instance to be made; of kind NewSlice only.
	Profile string
	Start   int
}

// Kind is what an ID stands for.
type Kind int

// The kinds, with their spelling.
const (
	Whole    Kind = iota // GPU-uuid
	Turn                 // GPU-uuid::3
	Slice                // MIG-uuid
	NewSlice             // GPU-uuid::mig-1g.18gb@4
)

// Limits of what is read: far above what is ever written.
const (
	maxID   = 256
	maxTurn = 1 << 20
)

// ParseID reads an ID. The error says what is wrong with it.
func ParseID(s string) (ID, error) {
	bad := func(why string) (ID, error) { return ID{}, fmt.Errorf("device ID %q: %s", clip(s), why) }
	if s == "" || len(s) > maxID {
		return bad(fmt.Sprintf("must have 1 to %d characters", maxID))
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == ',' || c == '"' || c == '\\' {
			return bad("may hold printable ASCII without quotes, commas and spaces only")
		}
	}
	uuid, rest, part := strings.Cut(s, "::")
	if uuid == "" || strings.Contains(uuid, "@") {
		return bad("has no UUID")
	}
	switch {
	case !part && strings.HasPrefix(uuid, "MIG-"):
		return ID{UUID: uuid, Kind: Slice}, nil
	case !part:
		return ID{UUID: uuid}, nil
	case strings.HasPrefix(rest, "mig-"):
		profile, at, ok := strings.Cut(strings.TrimPrefix(rest, "mig-"), "@")
		start, valid := number(at, 7)
		if !ok || profile == "" || strings.Contains(profile, ":") || !valid {
			return bad("must end in mig-PROFILE@START, with a start from 0 to 7")
		}
		return ID{UUID: uuid, Kind: NewSlice, Profile: profile, Start: start}, nil
	}
	n, ok := number(rest, maxTurn)
	if !ok {
		return bad("must end in the number of a turn")
	}
	return ID{UUID: uuid, Kind: Turn, Turn: n}, nil
}

// String spells an ID.
func (id ID) String() string {
	switch id.Kind {
	case Turn:
		return id.UUID + "::" + strconv.Itoa(id.Turn)
	case NewSlice:
		return id.UUID + "::mig-" + id.Profile + "@" + strconv.Itoa(id.Start)
	}
	return id.UUID
}

// number reads a number from 0 to limit in its one spelling.
func number(s string, limit int) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0 && n <= limit && strconv.Itoa(n) == s
}

// clip shortens a text from outside for a message.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}
