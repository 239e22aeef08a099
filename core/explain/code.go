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
	// OverCapability: the queue, or one above it, may not use that much.
	OverCapability
	// QuotaKept: what is left of the quota is kept for gangs with a reservation.
	QuotaKept
	// Guaranteed: there is enough in all, but too much of it is guaranteed to other
	// queues.
	Guaranteed
	// OverTotal: the cluster has too little left.
	OverTotal
	// NodesKept: nodes the gang could use are kept for gangs with a reservation.
	NodesKept

	// Turn: nothing but the gangs before it keeps the gang waiting.
	Turn
	// BackOff: its last start failed, and it is tried again later.
	BackOff
	// Invalid: the gang's specification is invalid; Detail names the field.
	Invalid

	// The last ones, after Invalid, are about objects that are no waiting gang. Core does not
	// give them: they answer questions about an object.

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
