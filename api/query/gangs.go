package query

import "time"

// Phases of gangs.
const (
	PhaseWaiting  = "Waiting"  // none of it has a place
	PhaseStarting = "Starting" // placed, not all are bound
	PhaseRunning  = "Running"  // all that it needs are bound
	PhasePartial  = "Partial"  // runs, with members that wait
)

// Gangs are gangs in the order in which they start, those that run last.
type Gangs struct {
	At    time.Time `json:"at"`
	Items []Gang    `json:"items"`
	// Continue goes on behind the last item; empty at the end.
	Continue string `json:"continue,omitempty"`
	// Hidden counts what the caller may not see by name, by phase.
	Hidden map[string]int `json:"hidden,omitempty"`
}

// Gang is a job, a group of pods that start together, or a pod of its own.
type Gang struct {
	GangRef
	// Kind and Owner say what it was made by: "Pod", "Job", "RayCluster", ...
	Kind      string    `json:"kind"`
	Owner     string    `json:"owner,omitempty"`
	Queue     string    `json:"queue"`
	User      string    `json:"user,omitempty"`
	Priority  int32     `json:"priority"`
	Phase     string    `json:"phase"`
	Submitted time.Time `json:"submitted"`
	// Need is how many members must run, Exist how many there are, Placed how many have a place.
	Need   int `json:"need"`
	Exist  int `json:"exist"`
	Placed int `json:"placed"`
	// Milli is what all members that exist ask for, of GPUs.
	Milli int64 `json:"milli"`
	// Position among all that wait, from 1; 0 for who does not.
	Position int `json:"position,omitempty"`
	// Reason is why it waits, as last reported; empty for who does not.
	Reason *Reason `json:"reason,omitempty"`
	// ExpectedStart is absent when it is not known, Reserved the nodes that are kept.
	ExpectedStart *time.Time `json:"expectedStart,omitempty"`
	Reserved      []string   `json:"reserved,omitempty"`
	// RuntimeSeconds is how long it is expected to run; 0 when not known. Learned: the pods do not declare it.
	RuntimeSeconds int64 `json:"runtimeSeconds,omitempty"`
	Learned        bool  `json:"learned,omitempty"`
	// Members are there when one gang is asked for, and in Why.
	Members []Member `json:"members,omitempty"`
}

// Member is a pod of a gang.
type Member struct {
	Pod      PodRef `json:"pod"`
	Role     string `json:"role,omitempty"`
	Subgroup string `json:"subgroup,omitempty"`
	// Node and Devices are where it is, or will be.
	Node    string  `json:"node,omitempty"`
	Devices []Part  `json:"devices,omitempty"`
	State   string  `json:"state"` // waiting, starting, bound, leaving
	Asks    []Asked `json:"asks,omitempty"`
}

// Part is a device, or a part of one.
type Part struct {
	Index     int    `json:"index"`
	UUID      string `json:"uuid,omitempty"`
	Milli     int64  `json:"milli"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
	Profile   string `json:"profile,omitempty"`
	Start     int    `json:"start,omitempty"`
}

// Asked is an amount of a resource in words: "nvidia.com/gpu", "8".
type Asked struct {
	Resource string `json:"resource"`
	Amount   string `json:"amount"`
}
