package explain

// Class says what a waiting gang waits for, and so which party can help.
type Class uint8

// Classes of waits. OfNode is of causes that are counted per node and never a gang's
// own.
const (
	OfNode Class = iota + 1
	// ForCapacity: more or other nodes, or the end of other pods, would help.
	// Autoscalers are told.
	ForCapacity
	// ForQuota: the administrator of queues and quotas can help; a node cannot.
	ForQuota
	// ForMembers: the gang's own controller has to create pods.
	ForMembers
	// ForTurn: nothing has to be done.
	ForTurn
	// ForOwner: the owner has to change the specification.
	ForOwner
)

// classes has each class's stable name, and the condition's reason of its codes that have
// none of their own.
var classes = [...]struct{ name, condition string }{
	0:           {"Unspecified", ""},
	OfNode:      {"Node", ""},
	ForCapacity: {"Capacity", "Unschedulable"},
	ForQuota:    {"Quota", "WaitingForQuota"},
	ForMembers:  {"Members", "WaitingForMembers"},
	ForTurn:     {"Turn", "WaitingForTurn"},
	ForOwner:    {"Owner", "Invalid"},
}

// String is the class's stable name.
func (c Class) String() string {
	if c > ForOwner {
		c = 0
	}
	return classes[c].name
}

// Permanence says what could cure a cause.
type Permanence uint8

// Permanences, from what passes by itself to what does not.
const (
	// Temporary causes end when pods end or when time passes: eviction can help.
	Temporary Permanence = iota + 1
	// Administered causes end when a cordon, a taint, a queue or a quota is changed, or
	// when other pods come: eviction does not help.
	Administered
	// Fixed causes end only when the node itself, the fleet or the specification is
	// another one.
	Fixed
)

// String is the permanence's stable name.
func (p Permanence) String() string {
	if names := [...]string{"unspecified", "temporary", "administered", "fixed"}; p <= Fixed {
		return names[p]
	}
	return "unspecified"
}
