package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Code says why a node cannot take a request.
type Code uint8

// Codes are ordered by how far a node got: a node is counted under the last
// check it reached, so the reason shown is the one to act on. Each names what
// Need and Best count.
const (
	// NoDevices: the node has no device of the vendor. Counts devices.
	NoDevices Code = iota + 1
	// TooFew: the node has such devices, but never as many. Counts devices.
	TooFew
	// WrongNode: a node attribute (label) the request insists on is missing.
	WrongNode
	// WrongDomain: the node is in no domain of the level the request insists on.
	WrongDomain
	// WrongModel: too few devices of an allowed model. Counts devices.
	WrongModel
	// WrongDevice: too few of the devices named by UUID or index are here.
	WrongDevice
	// SmallMemory: too few devices have the memory asked for. Counts MiB of the
	// largest device.
	SmallMemory
	// TooSmall: too few devices could take such a share or slice even when empty.
	// Counts devices.
	TooSmall
	// Unhealthy: enough devices, but not enough healthy ones. Counts devices.
	Unhealthy
	// Apart: enough healthy devices, but never as many that are close enough to each
	// other. Counts devices of the largest such group.
	Apart
	// NoCompany: too few devices where those are that the request must be with.
	// Counts devices. Nobody's leaving helps; somebody's coming does.
	NoCompany
	// TooClose: too few devices away from those that the request must not be with,
	// or that will not have it. Counts devices.
	TooClose
	// Taken: enough healthy devices, but others hold them. Counts free devices.
	Taken
	// FreeApart: enough free devices, but not as many that are close enough to each
	// other; others hold what is between. Counts free devices of the largest such
	// group.
	FreeApart

	numCodes
)

// cure says what would have to change before a node can take the request.
type cure uint8

const (
	// nodeChanges: the node itself would have to change, or a holder come. Permanent.
	nodeChanges cure = iota + 1
	// holderLeaves: it is enough that holders leave.
	holderLeaves
)

// codes has each code's stable name and its cure. A test fails for a code that is not
// listed.
var codes = [numCodes]struct {
	name string
	cure cure
}{
	NoDevices:   {"NoDevices", nodeChanges},
	TooFew:      {"TooFew", nodeChanges},
	WrongNode:   {"WrongNode", nodeChanges},
	WrongDomain: {"WrongDomain", nodeChanges},
	WrongModel:  {"WrongModel", nodeChanges},
	WrongDevice: {"WrongDevice", nodeChanges},
	SmallMemory: {"SmallMemory", nodeChanges},
	TooSmall:    {"TooSmall", nodeChanges},
	Unhealthy:   {"Unhealthy", nodeChanges},
	Apart:       {"Apart", nodeChanges},
	NoCompany:   {"NoCompany", nodeChanges},
	TooClose:    {"TooClose", holderLeaves},
	Taken:       {"Taken", holderLeaves},
	FreeApart:   {"FreeApart", holderLeaves},
}

// Permanent says that no holder's leaving can help: the node itself would have
// to change, or a holder come. A code without a listed cure is not called permanent,
// because that would stop the request for good.
func (c Code) Permanent() bool { return c < numCodes && codes[c].cure == nodeChanges }

// String is the code's stable name, for metrics and goldens.
func (c Code) String() string {
	if c >= numCodes || codes[c].name == "" {
		return "Unspecified"
	}
	return codes[c].name
}

// Refusal is why one node cannot take a request.
type Refusal struct {
	Code Code
	// Need is what the request asks for, Best what the node has of it, in the
	// unit the code names.
	Need, Best int64
	// Devices is how many of the node's devices the code concerns.
	Devices int
	// Detail names the attribute or model in question; may be empty.
	Detail string
}

// String says what one node lacks, to be read after "the node has".
func (r Refusal) String() string {
	switch r.Code {
	case NoDevices:
		return "no such GPU"
	case TooFew:
		return fmt.Sprintf("too few GPUs in all (%d of %d)", r.Best, r.Need)
	case WrongNode:
		return "no label " + r.Detail
	case WrongDomain:
		return "no " + r.Detail
	case WrongModel:
		return fmt.Sprintf("too few GPUs of model %s (%d of %d)", r.Detail, r.Best, r.Need)
	case WrongDevice:
		return fmt.Sprintf("too few of the GPUs named by %s (%d of %d)", r.Detail, r.Best, r.Need)
	case SmallMemory:
		return fmt.Sprintf("too little GPU memory (%d of %d MiB)", r.Best, r.Need)
	case TooSmall:
		return fmt.Sprintf("too few GPUs that ever have %s (%d of %d)", r.Detail, r.Best, r.Need)
	case Unhealthy:
		return fmt.Sprintf("too few healthy GPUs (%d of %d)", r.Best, r.Need)
	case NoCompany, TooClose:
		return fmt.Sprintf("too few GPUs for %s (%d of %d)", r.Detail, r.Best, r.Need)
	case Apart:
		return fmt.Sprintf("too few GPUs %s (%d of %d)", r.Detail, r.Best, r.Need)
	case FreeApart:
		return fmt.Sprintf("too few free GPUs %s (%d of %d)", r.Detail, r.Best, r.Need)
	case Taken:
		if r.Detail != "" {
			return fmt.Sprintf("too few GPUs with %s (%d of %d)", r.Detail, r.Best, r.Need)
		}
		return fmt.Sprintf("too few free GPUs (%d of %d)", r.Best, r.Need)
	}
	return "an unknown lack"
}

// Line is one reason counted over many nodes.
type Line struct {
	Code           Code
	Nodes, Devices int
	// Need is the request's, Best the best of all counted nodes.
	Need, Best int64
	Detail     string
}

// Tally counts refusals by reason. The zero value is empty.
type Tally struct{ lines []Line }

// Add counts a refusal that holds on the given number of nodes.
func (t *Tally) Add(r Refusal, nodes int) {
	if nodes == 0 {
		return
	}
	i := slices.IndexFunc(t.lines, func(l Line) bool { return l.Code == r.Code })
	if i < 0 {
		t.lines = append(t.lines, Line{Code: r.Code, Need: r.Need, Best: r.Best, Detail: r.Detail})
		i = len(t.lines) - 1
	}
	l := &t.lines[i]
	l.Nodes += nodes
	l.Devices += nodes * r.Devices
	l.Best = max(l.Best, r.Best)
	l.Detail = min(l.Detail, r.Detail) // any will do, but always the same one
}

// Lines returns the counted reasons, the ones closest to success first.
func (t *Tally) Lines() []Line {
	out := slices.Clone(t.lines)
	slices.SortFunc(out, func(a, b Line) int { return cmp.Compare(b.Code, a.Code) })
	return out
}

// Permanent says whether every counted refusal is permanent, so that no
// eviction can help. It is true for an empty tally.
func (t *Tally) Permanent() bool {
	return !slices.ContainsFunc(t.lines, func(l Line) bool { return !l.Code.Permanent() })
}

// String is one sentence for all nodes, for example "3 nodes have too few free
// GPUs (1 of 2), 5 nodes have too few GPUs of model a100 (0 of 2)". The numbers
// are those of the best node.
func (t *Tally) String() string {
	if len(t.lines) == 0 {
		return "the cluster has no nodes"
	}
	parts := make([]string, 0, len(t.lines))
	for _, l := range t.Lines() {
		parts = append(parts, l.String())
	}
	return strings.Join(parts, ", ")
}

// String is one reason in words, with the best any of the nodes has.
func (l Line) String() string {
	n := fmt.Sprintf("%d nodes have ", l.Nodes)
	if l.Nodes == 1 {
		n = "1 node has "
	}
	return n + Refusal{Code: l.Code, Need: l.Need, Best: l.Best, Detail: l.Detail}.String()
}
