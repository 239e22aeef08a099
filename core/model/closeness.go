package model

// Bond is what every two devices of a set must share. The zero value requires nothing.
// A single device satisfies every bond.
type Bond struct {
	// Link is the least class of the pair's link; SYS for any.
	Link LinkClass
	// NUMA: both are on the same NUMA node. A device with an unknown NUMA node shares it
	// with no other.
	NUMA bool
}

// And is what both bonds ask for.
func (b Bond) And(o Bond) Bond { return Bond{Link: max(b.Link, o.Link), NUMA: b.NUMA || o.NUMA} }

// NodeDepth is the depth of the level "node": below all levels of domains.
const NodeDepth = -1

// Level is a level of the domain tree as a request names it. The zero value names
// none.
type Level struct {
	Name string
	// Label is the node label that holds the nodes' domain at this level, for messages;
	// empty for the level "node".
	Label string
	// Depth is the level's place in Node.Domains, 0 for the outermost; NodeDepth
	// for "node".
	Depth int
}

// Labelled is the level with its label, for messages: "rack (label example.com/rack)".
func (l Level) Labelled() string { return l.Name + " (label " + l.Label + ")" }

// Closeness is how near to each other things must be: the devices of one holder
// (Bond), and the members of one gang (Level).
type Closeness struct {
	Bond
	Level Level
}

// NUMAPolicy is what a node's kubelet requires of the devices it hands out. Kubelet
// fails a pod that violates it instead of returning it to the scheduler, so the planner
// must check first.
type NUMAPolicy uint8

// AnyNUMA demands nothing. FewestNUMA demands no more NUMA nodes than the same
// devices would take on an empty node (kubelet's "restricted"); OneNUMA demands a
// single one ("single-numa-node").
const (
	AnyNUMA NUMAPolicy = iota
	FewestNUMA
	OneNUMA
)

// String is kubelet's name of the policy.
func (p NUMAPolicy) String() string {
	if names := [...]string{"none", "restricted", "single-numa-node"}; p <= OneNUMA {
		return names[p]
	}
	return "none"
}

// String is the class as nvidia-smi and GPUNodes spell it.
func (c LinkClass) String() string {
	if names := [...]string{"SYS", "NODE", "PHB", "PXB", "PIX", "NVLink", "NVSwitch"}; int(c) < len(names) {
		return names[c]
	}
	return "SYS"
}
