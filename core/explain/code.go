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
	// Isolated: gpu-controller keeps new pods off the node, until what Detail names is over.
	Isolated
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

	// The last ones are about what is no gang that waits here. Core never says them: they
	// are for who asks about an object.

	// NoObject: there is no such object.
	NoObject
	// NoPods: the object is there, and has no pods.
	NoPods
	// OtherScheduler: the pod names another scheduler, Detail.
	OtherScheduler
	// Gated: the pod has scheduling gates, Detail.
	Gated
	// Unseen: the PodGroup, the controller or the claims of the pod have not been seen yet.
	Unseen
	// Unplanned: the pod asks for no GPU, gang or queue, so that kube-scheduler alone places
	// it; Detail is what it says.
	Unplanned
	// Terminating: the pod is being deleted.
	Terminating
	// Ended: the pod has ended; Detail is its phase.
	Ended
	// Contested: the pod runs, and its record names a device that another pod holds.
	Contested

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

// String is the permanence's stable name.
func (p Permanence) String() string {
	if names := [...]string{"unspecified", "passing", "administered", "fixed"}; int(p) < len(names) {
		return names[p]
	}
	return "unspecified"
}

// row is what is known of a code.
type row struct {
	name  string
	class Class
	lasts Permanence
	// meaning says what it means, to be read after "it waits because" (of a node: "it is
	// refused because").
	meaning string
}

// rows has one row per code; a test fails for a code without one.
var rows = [codes]row{
	NoDevices:       {"NoDevices", OfNode, Fixed, "the node has no GPU of the vendor that is asked for"},
	TooFew:          {"TooFew", OfNode, Fixed, "the node has such GPUs, but never as many as one pod asks for"},
	WrongNode:       {"WrongNode", OfNode, Fixed, "the node lacks a label that the request insists on"},
	WrongDomain:     {"WrongDomain", OfNode, Fixed, "the node is in no domain (rack, block, ...) of the level that is required"},
	WrongModel:      {"WrongModel", OfNode, Fixed, "the node has too few GPUs of an allowed model"},
	WrongDevice:     {"WrongDevice", OfNode, Fixed, "the node has too few of the GPUs that are named by UUID, index or claim"},
	SmallMemory:     {"SmallMemory", OfNode, Fixed, "too few GPUs of the node have the memory that is asked for"},
	TooSmall:        {"TooSmall", OfNode, Fixed, "too few GPUs of the node could have such a share or MIG profile, even when they are empty"},
	SmallHost:       {"SmallHost", OfNode, Fixed, "the node never has as much of a resource beside GPUs (CPU, memory, RDMA, ...)"},
	Unselected:      {"Unselected", OfNode, Fixed, "the pod's nodeSelector or required node affinity excludes the node"},
	Unhealthy:       {"Unhealthy", OfNode, Administered, "the node has enough GPUs, but too few healthy ones"},
	DevicesCordoned: {"DevicesCordoned", OfNode, Administered, "the node has enough healthy GPUs, but an operator keeps new pods off too many of them"},
	Apart:           {"Apart", OfNode, Fixed, "the node never has as many GPUs that are linked as closely as is required"},
	Tainted:         {"Tainted", OfNode, Administered, "the node has a taint that the pod does not tolerate"},
	Cordoned:        {"Cordoned", OfNode, Administered, "the node is marked unschedulable"},
	Isolated:        {"Isolated", OfNode, Administered, "gpu-controller keeps new pods off the node, because it is faulty or under maintenance"},
	NoCompany:       {"NoCompany", OfNode, Administered, "too few GPUs are where the pods are that this one must be with"},
	TooClose:        {"TooClose", OfNode, Passing, "too few GPUs are away from pods that this one must not be with"},
	Taken:           {"Taken", OfNode, Passing, "the node has enough GPUs, but other pods hold them"},
	FreeApart:       {"FreeApart", OfNode, Passing, "enough GPUs of the node are free, but not as many that are linked as closely as is required"},
	BusyHost:        {"BusyHost", OfNode, Passing, "GPUs of the node are free, but too little of another resource is"},
	Neighbor:        {"Neighbor", OfNode, Passing, "a pod on the node, or planned there, keeps this one off: host port, required anti-affinity, spreading"},
	Filtered:        {"Filtered", OfNode, Passing, "one of kube-scheduler's filters refused the node"},
	Members:         {"Members", ForMembers, Administered, "fewer pods exist than the gang needs"},
	NoDomain:        {"NoDomain", ForCapacity, Passing, "no domain of the required level has room for the gang"},
	Nodes:           {"Nodes", ForCapacity, Passing, "too few nodes take the gang's pods; the causes of the nodes are counted"},
	Rejected:        {"Rejected", ForCapacity, Administered, "kube-scheduler rejects a pod whatever the node: a volume claim that does not exist, say"},
	NoQueue:         {"NoQueue", ForQuota, Administered, "there is no queue of that name"},
	InnerQueue:      {"InnerQueue", ForQuota, Administered, "the queue has queues below it and takes no jobs itself"},
	QueueForbidden:  {"QueueForbidden", ForQuota, Administered, "the queue, or one above it, does not take pods of the namespace"},
	QueueClosed:     {"QueueClosed", ForQuota, Administered, "the queue, or one above it, is closed"},
	OverQuota:       {"OverQuota", ForQuota, Passing, "the namespace's quota (annotation tangram.dev/quota) has no room"},
	OverCapability:  {"OverCapability", ForQuota, Passing, "the queue, or one above it, may not use as much"},
	QuotaKept:       {"QuotaKept", ForQuota, Passing, "what is left of the quota is kept for gangs with a reservation"},
	Guaranteed:      {"Guaranteed", ForCapacity, Passing, "the cluster has enough, but too much of it is guaranteed to other queues"},
	OverTotal:       {"OverTotal", ForCapacity, Passing, "the cluster has not as much left"},
	NodesKept:       {"NodesKept", ForCapacity, Passing, "nodes that it could use are kept for gangs with a reservation"},
	Turn:            {"Turn", ForTurn, Passing, "it fits, and others go before it"},
	BackOff:         {"BackOff", ForTurn, Passing, "its last start failed, and it is tried again later"},
	NoObject:        {"NoObject", ForOwner, Fixed, "there is no such object"},
	NoPods:          {"NoPods", ForMembers, Administered, "the object is there and has no pods yet"},
	OtherScheduler:  {"OtherScheduler", ForOwner, Fixed, "the pod names a scheduler that is not Tangram"},
	Gated:           {"Gated", ForOwner, Administered, "the pod has scheduling gates"},
	Unseen:          {"Unseen", ForTurn, Passing, "the PodGroup, the controller or the claims of the pod have not been seen yet"},
	Unplanned:       {"Unplanned", ForCapacity, Passing, "the pod asks for no GPU, gang or queue: kube-scheduler alone places it"},
	Terminating:     {"Terminating", ForTurn, Passing, "the pod is being deleted"},
	Ended:           {"Ended", ForOwner, Fixed, "the pod has ended"},
	Contested:       {"Contested", ForOwner, Administered, "the pod runs, and its record names a device that another pod holds"},
	Invalid:         {"Invalid", ForOwner, Fixed, "the specification is invalid; the field is named"},
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
