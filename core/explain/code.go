package explain

// Code names one cause for which a node is refused or a gang waits. It is the one
// list of causes: of nodes, members, queues and quotas, of the order among gangs.
type Code uint8

// Codes of nodes come first, ordered by how far a node got: a node is counted under
// the last check it reached, so the cause shown is the one to act on. Each names what
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
	// SmallHost: the node never has as much of a resource beside devices. Counts that
	// resource; Detail is its name.
	SmallHost
	// Unselected: the pod's nodeSelector or required node affinity excludes the node.
	Unselected
	// Unhealthy: enough devices, but not enough healthy ones. Counts devices.
	Unhealthy
	// DevicesCordoned: enough healthy devices, but an operator keeps new work off too
	// many of them. Counts devices.
	DevicesCordoned
	// Apart: enough healthy devices, but never as many that are close enough to each
	// other. Counts devices of the largest such group.
	Apart
	// Tainted: the node has a taint that the pod does not tolerate.
	Tainted
	// Cordoned: the node is marked unschedulable.
	Cordoned
	// NoCompany: too few devices where those are that the request must be with.
	// Counts devices. No pod's end helps; a pod's start does.
	NoCompany
	// TooClose: too few devices away from those that the request must not be with,
	// or that will not have it. Counts devices.
	TooClose
	// Taken: enough healthy devices, but other pods hold them. Counts free devices.
	Taken
	// FreeApart: enough free devices, but not as many that are close enough to each
	// other; other pods hold what is between. Counts free devices of the largest such
	// group.
	FreeApart
	// BusyHost: the devices are free, but too little of another resource is. Counts
	// that resource; Detail is its name.
	BusyHost
	// Neighbor: a pod on the node, or planned there, keeps this one off by host ports,
	// required anti-affinity or spreading.
	Neighbor
	// Filtered: one of kube-scheduler's filters refused the node; Detail is what it
	// said.
	Filtered

	// Members: fewer members exist than the gang needs.
	Members
	// NoDomain: no domain of the required level has room for the gang.
	NoDomain
	// Nodes: too few nodes take the gang's members; the nodes' own causes are counted.
	Nodes
	// Rejected: kube-scheduler rejects a member whatever the node (a volume claim that
	// does not exist); Detail is what it said.
	Rejected

	// NoQueue: there is no queue of that name.
	NoQueue
	// InnerQueue: the queue has queues below it and takes no jobs itself.
	InnerQueue
	// QueueForbidden: the queue, or one above it, does not take pods of the namespace.
	QueueForbidden
	// QueueClosed: the queue, or one above it, is closed.
	QueueClosed
	// OverQuota: the namespace's quota has no room.
	OverQuota
	// OverCapability: the queue, or one above it, may not use as much.
	OverCapability
	// QuotaKept: what is left of the quota is kept for gangs with a reservation.
	QuotaKept
	// Guaranteed: there is enough in all, but too much of it is guaranteed to other
	// queues.
	Guaranteed
	// OverTotal: the cluster has not as much left.
	OverTotal
	// NodesKept: nodes the gang could use are kept for gangs with a reservation.
	NodesKept

	// Turn: nothing but the gangs before it keeps the gang waiting.
	Turn
	// BackOff: its last start failed, and it is tried again later.
	BackOff
	// Invalid: the gang's specification is invalid; Detail names the field.
	Invalid

	codes // the number of codes plus one
)

// Class says what a waiting gang waits for, and so who can help.
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

// String is the class's stable name.
func (c Class) String() string {
	if names := [...]string{"Unspecified", "Node", "Capacity", "Quota", "Members", "Turn", "Owner"}; int(c) < len(names) {
		return names[c]
	}
	return "Unspecified"
}

// Permanence says what could cure a cause.
type Permanence uint8

// Permanences, from what passes by itself to what does not.
const (
	// Passing causes end when pods end or when time passes: eviction can help.
	Passing Permanence = iota + 1
	// Administered causes end when a cordon, a taint, a queue or a quota is changed, or
	// when other pods come: eviction does not help.
	Administered
	// Fixed causes end only when the node itself, the fleet or the specification is
	// another one.
	Fixed
)

// row is what is known of a code.
type row struct {
	name  string
	class Class
	lasts Permanence
}

// rows has one row per code; a test fails for a code without one.
var rows = [codes]row{
	NoDevices:       {"NoDevices", OfNode, Fixed},
	TooFew:          {"TooFew", OfNode, Fixed},
	WrongNode:       {"WrongNode", OfNode, Fixed},
	WrongDomain:     {"WrongDomain", OfNode, Fixed},
	WrongModel:      {"WrongModel", OfNode, Fixed},
	WrongDevice:     {"WrongDevice", OfNode, Fixed},
	SmallMemory:     {"SmallMemory", OfNode, Fixed},
	TooSmall:        {"TooSmall", OfNode, Fixed},
	SmallHost:       {"SmallHost", OfNode, Fixed},
	Unselected:      {"Unselected", OfNode, Fixed},
	Unhealthy:       {"Unhealthy", OfNode, Administered},
	DevicesCordoned: {"DevicesCordoned", OfNode, Administered},
	Apart:           {"Apart", OfNode, Fixed},
	Tainted:         {"Tainted", OfNode, Administered},
	Cordoned:        {"Cordoned", OfNode, Administered},
	NoCompany:       {"NoCompany", OfNode, Administered},
	TooClose:        {"TooClose", OfNode, Passing},
	Taken:           {"Taken", OfNode, Passing},
	FreeApart:       {"FreeApart", OfNode, Passing},
	BusyHost:        {"BusyHost", OfNode, Passing},
	Neighbor:        {"Neighbor", OfNode, Passing},
	Filtered:        {"Filtered", OfNode, Passing},
	Members:         {"Members", ForMembers, Administered},
	NoDomain:        {"NoDomain", ForCapacity, Passing},
	Nodes:           {"Nodes", ForCapacity, Passing},
	Rejected:        {"Rejected", ForCapacity, Administered},
	NoQueue:         {"NoQueue", ForQuota, Administered},
	InnerQueue:      {"InnerQueue", ForQuota, Administered},
	QueueForbidden:  {"QueueForbidden", ForQuota, Administered},
	QueueClosed:     {"QueueClosed", ForQuota, Administered},
	OverQuota:       {"OverQuota", ForQuota, Passing},
	OverCapability:  {"OverCapability", ForQuota, Passing},
	QuotaKept:       {"QuotaKept", ForQuota, Passing},
	Guaranteed:      {"Guaranteed", ForCapacity, Passing},
	OverTotal:       {"OverTotal", ForCapacity, Passing},
	NodesKept:       {"NodesKept", ForCapacity, Passing},
	Turn:            {"Turn", ForTurn, Passing},
	BackOff:         {"BackOff", ForTurn, Passing},
	Invalid:         {"Invalid", ForOwner, Fixed},
}

// String is the code's stable name, for metrics and goldens.
func (c Code) String() string {
	if c >= codes || rows[c].name == "" {
		return "Unspecified"
	}
	return rows[c].name
}

// Class is what a gang waits for that waits for this cause.
func (c Code) Class() Class { return rows[c].class }

// Permanence is what could cure the cause.
func (c Code) Permanence() Permanence { return rows[c].lasts }

// Permanent says that no pod's end can help: the node itself, an administrator's
// setting or another pod's start would have to.
func (c Code) Permanent() bool { return c.Permanence() != Passing }
