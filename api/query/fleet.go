package query

import "time"

// Fleet is what there is and what it does.
type Fleet struct {
	At        time.Time `json:"at"`
	Scheduler Scheduler `json:"scheduler"`
	Nodes     NodeSums  `json:"nodes"`
	Models    []Model   `json:"models"`
	Work      Work      `json:"work"`
	// Fragmentation is the share of free GPUs that what waits or is typical cannot use, 0..1.
	Fragmentation float64 `json:"fragmentation"`
}

// Scheduler is who answers.
type Scheduler struct {
	Holder  string `json:"holder"`
	Version string `json:"version"`
	// Suspended: the API server does not answer, and nothing is started.
	Suspended bool `json:"suspended,omitempty"`
}

// NodeSums counts nodes with devices.
type NodeSums struct {
	Total    int `json:"total"`
	Ready    int `json:"ready"`
	Cordoned int `json:"cordoned"`
	Lost     int `json:"lost"`
}

// Model is the devices of one model, in thousandths, by what they do. The states are
// disjoint: they add up to Milli.
type Model struct {
	Vendor string `json:"vendor"`
	Model  string `json:"model"`
	Milli  int64  `json:"milli"`
	// ByState has the stable names of core/answer.Use: free, allocated, idle_allocated, failed, cordoned, degraded.
	ByState map[string]int64 `json:"byState"`
}

// Work is what runs and waits, in sums.
type Work struct {
	RunningGangs int `json:"runningGangs"`
	RunningPods  int `json:"runningPods"`
	WaitingGangs int `json:"waitingGangs"`
	WaitingPods  int `json:"waitingPods"`
	Reservations int `json:"reservations"`
	// ChargedMilli is what queues and quotas count for what runs, in thousandths of a GPU.
	// What is allocated of Models can be another number: see Device.ChargedMilli.
	ChargedMilli int64 `json:"chargedMilli,omitempty"`
	// OldestSeconds is how long the oldest waits.
	OldestSeconds int64 `json:"oldestSeconds"`
}

// Nodes are the nodes with devices, by name.
type Nodes struct {
	At time.Time `json:"at"`
	// Version is to be given as ParamSince to learn what changed since. An answer to such a
	// question has only nodes that changed; Partial says that it is one.
	Version uint64 `json:"version"`
	Partial bool   `json:"partial,omitempty"`
	Items   []Node `json:"items"`
	// Removed are nodes that are gone since.
	Removed []string `json:"removed,omitempty"`
	// Levels are the levels of the topology, the widest first.
	Levels []string `json:"levels"`
	// Hidden counts nodes that the caller may not list: then there are no items.
	Hidden int `json:"hidden,omitempty"`
}

// Node is a node with its devices.
type Node struct {
	Name string `json:"name"`
	// State is ready, cordoned or lost.
	State string `json:"state"`
	// Domains are the node's domains by level: "rack": "r1".
	Domains map[string]string `json:"domains,omitempty"`
	// KeptFor is the gang that the node is kept for; Kept alone when its name is hidden.
	Kept    bool     `json:"kept,omitempty"`
	KeptFor *GangRef `json:"keptFor,omitempty"`
	Devices []Device `json:"devices"`
	// Links are groups of devices, by index, with a link that is better than the node's
	// common one, the best first; empty when all are alike.
	Links []LinkGroup `json:"links,omitempty"`
	// Free of the host, for requests that need CPUs and memory beside devices.
	CPUMilliFree  int64 `json:"cpuMilliFree"`
	MemoryMiBFree int64 `json:"memoryMiBFree"`
}

// LinkGroup is devices that are linked alike.
type LinkGroup struct {
	Link    string `json:"link"`
	Devices []int  `json:"devices"`
}

// Device is one card.
type Device struct {
	Index     int    `json:"index"`
	UUID      string `json:"uuid,omitempty"`
	Vendor    string `json:"vendor"`
	Model     string `json:"model"`
	MemoryMiB int64  `json:"memoryMiB"`
	// State is one of Model.ByState's names; of a device that is partly held, allocated.
	State string `json:"state"`
	// Health is healthy, degraded or failed, Detail what was seen.
	Health string `json:"health"`
	Detail string `json:"detail,omitempty"`
	// Mode is whole, shared, mig or replicated: how it is handed out now; free: empty.
	Mode string `json:"mode,omitempty"`
	// HeldMilli is how much of it is not left for others, 0..1000; HeldMemoryMiB of its memory. ChargedMilli is
	// what queues and quotas count for it, the sum of its holders: of a device that is cut or shared it can be
	// another number (three MIG slices 1g of 7 are charged 0.375, and leave half of it).
	HeldMilli     int64 `json:"heldMilli"`
	ChargedMilli  int64 `json:"chargedMilli,omitempty"`
	HeldMemoryMiB int64 `json:"heldMemoryMiB,omitempty"`
	// Utilization in percent and temperature as measured; absent when not known.
	Utilization *int64   `json:"utilization,omitempty"`
	Temperature *int64   `json:"temperature,omitempty"`
	Holders     []Holder `json:"holders,omitempty"`
	// Hidden counts holders that the caller may not see by name.
	Hidden int `json:"hidden,omitempty"`
}

// Holder is who holds a part of a device.
type Holder struct {
	Pod   PodRef  `json:"pod"`
	Gang  GangRef `json:"gang"`
	Queue string  `json:"queue"`
	Milli int64   `json:"milli"`
	// MemoryMiB of a share, Profile and Slots of a MIG slice.
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
	Profile   string `json:"profile,omitempty"`
	Start     int    `json:"start,omitempty"`
	Size      int    `json:"size,omitempty"`
	// Starting: it is decided, and not yet bound.
	Starting bool `json:"starting,omitempty"`
}

// PodRef names a pod.
type PodRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// GangRef names a gang: a pod of its own, or what its pods belong to.
type GangRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}
