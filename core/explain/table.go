package explain

// row is what is known of a code.
type row struct {
	name  string
	class Class
	lasts Permanence
	// apart: refusals of the code are counted apart by their detail. There are few different
	// ones, and each needs another cure.
	apart bool
	// condition is the reason of the condition PodScheduled of the gang's pods; empty: that of
	// the class.
	condition string
	// meaning says what it means, to be read after "it waits because" (of a node: "it is
	// refused because").
	meaning string
}

// rows has one row per code, in the order of the codes; a test fails for a code without one.
var rows = [codes]row{
	NoDevices:       {name: "NoDevices", class: OfNode, lasts: Fixed, meaning: "the node has no GPU of the vendor that is asked for"},
	TooFew:          {name: "TooFew", class: OfNode, lasts: Fixed, meaning: "the node has such GPUs, but never as many as one pod asks for"},
	WrongNode:       {name: "WrongNode", class: OfNode, lasts: Fixed, meaning: "the node lacks a label that the request insists on"},
	WrongDomain:     {name: "WrongDomain", class: OfNode, lasts: Fixed, meaning: "the node is in no domain (rack, block, ...) of the level that is required"},
	WrongModel:      {name: "WrongModel", class: OfNode, lasts: Fixed, meaning: "the node has too few GPUs of an allowed model"},
	WrongDevice:     {name: "WrongDevice", class: OfNode, lasts: Fixed, meaning: "the node has too few of the GPUs that are named by UUID, index or claim"},
	SmallMemory:     {name: "SmallMemory", class: OfNode, lasts: Fixed, meaning: "too few GPUs of the node have the memory that is asked for"},
	TooSmall:        {name: "TooSmall", class: OfNode, lasts: Fixed, meaning: "too few GPUs of the node could have such a share or MIG profile, even when they are empty"},
	SmallHost:       {name: "SmallHost", class: OfNode, lasts: Fixed, apart: true, meaning: "the node never has that much of a resource beside GPUs (CPU, memory, RDMA, ...)"},
	Unselected:      {name: "Unselected", class: OfNode, lasts: Fixed, meaning: "the pod's nodeSelector or required node affinity excludes the node"},
	Unhealthy:       {name: "Unhealthy", class: OfNode, lasts: Administered, meaning: "the node has enough GPUs, but too few healthy ones"},
	DevicesCordoned: {name: "DevicesCordoned", class: OfNode, lasts: Administered, meaning: "the node has enough healthy GPUs, but an operator keeps new pods off too many of them"},
	Apart:           {name: "Apart", class: OfNode, lasts: Fixed, meaning: "the node never has that many GPUs that are linked as closely as is required"},
	Tainted:         {name: "Tainted", class: OfNode, lasts: Administered, apart: true, meaning: "the node has a taint that the pod does not tolerate"},
	Cordoned:        {name: "Cordoned", class: OfNode, lasts: Administered, meaning: "the node is marked unschedulable"},
	Isolated:        {name: "Isolated", class: OfNode, lasts: Administered, apart: true, meaning: "gpu-controller keeps new pods off the node, because it is faulty or under maintenance"},
	NoCompany:       {name: "NoCompany", class: OfNode, lasts: Administered, meaning: "too few GPUs are where the pods are that this one must be with"},
	TooClose:        {name: "TooClose", class: OfNode, lasts: Temporary, meaning: "too few GPUs are away from pods that this one must not be with"},
	Taken:           {name: "Taken", class: OfNode, lasts: Temporary, meaning: "the node has enough GPUs, but other pods hold them"},
	FreeApart:       {name: "FreeApart", class: OfNode, lasts: Temporary, meaning: "enough GPUs of the node are free, but too few of them are linked as closely as is required"},
	BusyHost:        {name: "BusyHost", class: OfNode, lasts: Temporary, apart: true, meaning: "GPUs of the node are free, but too little of another resource is"},
	Neighbor:        {name: "Neighbor", class: OfNode, lasts: Temporary, apart: true, meaning: "a pod on the node, or planned there, keeps this one off: host port, required anti-affinity, spreading"},
	Filtered:        {name: "Filtered", class: OfNode, lasts: Temporary, apart: true, meaning: "one of kube-scheduler's filters refused the node"},
	Members:         {name: "Members", class: ForMembers, lasts: Administered, meaning: "fewer pods exist than the gang needs"},
	NoDomain:        {name: "NoDomain", class: ForCapacity, lasts: Temporary, meaning: "no domain of the required level has room for the gang"},
	Nodes:           {name: "Nodes", class: ForCapacity, lasts: Temporary, meaning: "too few nodes take the gang's pods; the causes of the nodes are counted"},
	Rejected:        {name: "Rejected", class: ForCapacity, lasts: Administered, condition: "Rejected", meaning: "kube-scheduler rejects a pod whatever the node: a volume claim that does not exist, say"},
	NoQueue:         {name: "NoQueue", class: ForQuota, lasts: Administered, condition: "InvalidQueue", meaning: "there is no queue of that name"},
	InnerQueue:      {name: "InnerQueue", class: ForQuota, lasts: Administered, condition: "InvalidQueue", meaning: "the queue has queues below it and takes no jobs itself"},
	QueueForbidden:  {name: "QueueForbidden", class: ForQuota, lasts: Administered, condition: "QueueForbidden", meaning: "the queue, or one above it, does not take pods of the namespace"},
	QueueClosed:     {name: "QueueClosed", class: ForQuota, lasts: Administered, condition: "QueueClosed", meaning: "the queue, or one above it, is closed"},
	OverQuota:       {name: "OverQuota", class: ForQuota, lasts: Temporary, meaning: "the namespace's quota (annotation tangram.dev/quota) has no room"},
	OverCapability:  {name: "OverCapability", class: ForQuota, lasts: Temporary, meaning: "the queue, or one above it, may not use that much"},
	QuotaKept:       {name: "QuotaKept", class: ForQuota, lasts: Temporary, meaning: "what is left of the quota is kept for gangs with a reservation"},
	Guaranteed:      {name: "Guaranteed", class: ForCapacity, lasts: Temporary, meaning: "the cluster has enough, but too much of it is guaranteed to other queues"},
	OverTotal:       {name: "OverTotal", class: ForCapacity, lasts: Temporary, meaning: "the cluster has too little left"},
	NodesKept:       {name: "NodesKept", class: ForCapacity, lasts: Temporary, meaning: "nodes that it could use are kept for gangs with a reservation"},
	Turn:            {name: "Turn", class: ForTurn, lasts: Temporary, meaning: "it fits, and others go before it"},
	BackOff:         {name: "BackOff", class: ForTurn, lasts: Temporary, condition: "StartFailed", meaning: "its last start failed, and it is tried again later"},
	Invalid:         {name: "Invalid", class: ForOwner, lasts: Fixed, meaning: "the specification is invalid; the field is named"},
	NoObject:        {name: "NoObject", class: ForOwner, lasts: Fixed, meaning: "there is no such object"},
	NoPods:          {name: "NoPods", class: ForMembers, lasts: Administered, meaning: "the object is there and has no pods yet"},
	OtherScheduler:  {name: "OtherScheduler", class: ForOwner, lasts: Fixed, meaning: "the pod names a scheduler that is not Tangram"},
	Gated:           {name: "Gated", class: ForOwner, lasts: Administered, meaning: "the pod has scheduling gates"},
	Unseen:          {name: "Unseen", class: ForTurn, lasts: Temporary, meaning: "the PodGroup, the controller or the claims of the pod have not been seen yet"},
	Unplanned:       {name: "Unplanned", class: ForCapacity, lasts: Temporary, meaning: "the pod asks for no GPU, gang or queue: kube-scheduler alone places it"},
	Terminating:     {name: "Terminating", class: ForTurn, lasts: Temporary, meaning: "the pod is being deleted"},
	Ended:           {name: "Ended", class: ForOwner, lasts: Fixed, meaning: "the pod has ended"},
	Contested:       {name: "Contested", class: ForOwner, lasts: Administered, meaning: "the pod runs, and its record names a device that another pod holds"},
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
func (c Code) Permanent() bool { return c.Permanence() != Temporary }

// Condition is the reason of the condition PodScheduled of pods that wait for this cause;
// empty for codes of nodes, and for those that only answer questions. Autoscalers look at
// pods that are Unschedulable, and at no others.
func (c Code) Condition() string {
	if c > Invalid {
		return ""
	}
	if word := rows[c].condition; word != "" {
		return word
	}
	return classes[c.Class()].condition
}
