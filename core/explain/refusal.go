package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/model"
)

// Refusal is why one node cannot take a request.
type Refusal struct {
	Code Code
	// Need is what the request asks for, Best what the node has of it, in the
	// unit the code names.
	Need, Best int64
	// Devices is how many of the node's devices the code concerns.
	Devices int
	// Detail names the attribute, model, taint or resource in question; may be empty.
	Detail string
}

// String says what one node lacks, to be read after "node(s) had".
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
	case SmallHost:
		return fmt.Sprintf("too little %s in all (needs %s, the largest has %s)", resourceName(r.Detail), Quantity(r.Detail, r.Need), Quantity(r.Detail, r.Best))
	case BusyHost:
		return fmt.Sprintf("too little free %s (needs %s, at most %s free)", resourceName(r.Detail), Quantity(r.Detail, r.Need), Quantity(r.Detail, r.Best))
	case Unselected:
		return "other labels than " + cmp.Or(r.Detail, "the pod's node affinity") + " asks for"
	case Tainted:
		return "an untolerated taint " + r.Detail
	case Cordoned:
		return "been cordoned"
	case Isolated:
		return "been isolated by gpu-controller (" + cmp.Or(r.Detail, "cause unknown") + ")"
	case Unhealthy:
		return fmt.Sprintf("too few healthy GPUs (%d of %d)", r.Best, r.Need)
	case DevicesCordoned:
		return fmt.Sprintf("too few GPUs that are not cordoned (%d of %d)", r.Best, r.Need)
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
	case Neighbor:
		return "pods that may not share a node with this one: " + r.Detail
	case Filtered:
		return "been refused by kube-scheduler: " + r.Detail
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
	// examples are the first maxExamples of these nodes by ID, as far as they were named.
	examples []model.NodeID
}

// Tally counts refusals by reason, and the nodes that do not refuse. The zero value is
// empty.
type Tally struct {
	lines []Line
	fit   int
}

// AddFit counts nodes that would take the request.
func (t *Tally) AddFit(nodes int) { t.fit += nodes }

// Fit is how many nodes would take the request.
func (t *Tally) Fit() int { return t.fit }

// maxDetails bounds how many lines one code has: what filters say may name nodes.
const maxDetails = 4

// maxExamples is how many nodes of a line are remembered by name.
const maxExamples = 3

// Add counts a refusal that holds on the given number of nodes.
func (t *Tally) Add(r Refusal, nodes int) {
	if nodes > 0 {
		t.add(r, nodes)
	}
}

// AddNode counts a refusal of one node, and remembers it as an example.
func (t *Tally) AddNode(r Refusal, id model.NodeID) {
	l := t.add(r, 1)
	at, known := slices.BinarySearch(l.examples, id)
	if known || at == maxExamples {
		return
	}
	if l.examples == nil {
		l.examples = make([]model.NodeID, 0, maxExamples)
	}
	l.examples = slices.Insert(l.examples[:min(len(l.examples), maxExamples-1)], at, id)
}

// add counts a refusal and returns its line.
func (t *Tally) add(r Refusal, nodes int) *Line {
	same, lines := -1, 0
	for i, l := range t.lines {
		if l.Code == r.Code {
			same = i
			if lines++; !rows[r.Code].apart || l.Detail == r.Detail || lines == maxDetails {
				break
			}
			same = -1
		}
	}
	if same < 0 {
		t.lines = append(t.lines, Line{Code: r.Code, Need: r.Need, Best: r.Best, Detail: r.Detail})
		same = len(t.lines) - 1
	}
	l := &t.lines[same]
	l.Nodes += nodes
	l.Devices += nodes * r.Devices
	l.Best = max(l.Best, r.Best)
	if !rows[r.Code].apart {
		l.Detail = min(l.Detail, r.Detail) // any will do, but always the same one
	}
	return l
}

// Lines returns the counted reasons, the ones closest to success first.
func (t *Tally) Lines() []Line {
	out := slices.Clone(t.lines)
	slices.SortFunc(out, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Code, a.Code), cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Detail, b.Detail))
	})
	return out
}

// Nodes is how many nodes are counted.
func (t *Tally) Nodes() int {
	sum := t.fit
	for _, l := range t.lines {
		sum += l.Nodes
	}
	return sum
}

// Permanent says whether every counted refusal is permanent, so that no
// eviction can help. It is true for an empty tally.
func (t *Tally) Permanent() bool {
	return !slices.ContainsFunc(t.lines, func(l Line) bool { return !l.Code.Permanent() })
}

// Administered says whether a counted refusal could be cured by an administrator: a
// device that is repaired, a cordon or a taint that is taken away.
func (t *Tally) Administered() bool {
	return slices.ContainsFunc(t.lines, func(l Line) bool { return l.Code.Permanence() == Administered })
}

// String is one sentence for all nodes, for example "0/8 nodes fit: 3 have too few
// free GPUs (1 of 2), 5 have too few GPUs of model a100 (0 of 2)". The numbers are
// those of the best node.
func (t *Tally) String() string {
	switch {
	case t.Nodes() == 0:
		return "the cluster has no nodes"
	case len(t.lines) == 0:
		return fmt.Sprintf("%d/%d nodes fit", t.fit, t.fit)
	}
	parts := make([]string, 0, len(t.lines))
	for _, l := range t.Lines() {
		parts = append(parts, l.String())
	}
	return fmt.Sprintf("%d/%d nodes fit: %s", t.fit, t.Nodes(), strings.Join(parts, ", "))
}

// String is one reason in words, with the best any of the nodes has.
func (l Line) String() string {
	verb := func(singular, plural string) string {
		return fmt.Sprintf("%d %s ", l.Nodes, verb(int64(l.Nodes), singular, plural))
	}
	switch l.Code {
	case Unselected:
		return verb("does not match", "do not match") + cmp.Or(l.Detail, "the pod's node affinity")
	case Cordoned:
		return strings.TrimSpace(verb("is cordoned", "are cordoned"))
	case Isolated:
		return verb("is isolated", "are isolated") + "by gpu-controller (" + cmp.Or(l.Detail, "cause unknown") + ")"
	case Filtered:
		return verb("was refused:", "were refused:") + l.Detail
	}
	return verb("has", "have") + Refusal{Code: l.Code, Need: l.Need, Best: l.Best, Detail: l.Detail}.String()
}
