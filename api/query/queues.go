package query

import "time"

// Queues are all queues that the caller may see, parents before children.
type Queues struct {
	At    time.Time `json:"at"`
	Items []Queue   `json:"items"`
	// Hidden counts queues that the caller may not see.
	Hidden int `json:"hidden,omitempty"`
}

// Queue is a queue in numbers.
type Queue struct {
	Name   string `json:"name"`
	Parent string `json:"parent,omitempty"`
	Weight int64  `json:"weight"`
	// State is Open, Closed or Closing.
	State string `json:"state"`
	// Resources by name ("nvidia.com/gpu" in thousandths, "cpu" in thousandths, "memory" in MiB).
	Resources []QueueResource `json:"resources"`
	// GPUs is the sum of its GPUs of all vendors, the figure that most people want.
	GPUs QueueResource `json:"gpus"`
	// Balance is what the queue is owed (above 0) or owes (below) of its share, in GPU seconds.
	Balance float64 `json:"balance"`
	Running int     `json:"running"`
	Waiting int     `json:"waiting"`
}

// QueueResource is one resource of a queue. A limit that is not set is absent.
type QueueResource struct {
	Resource   string `json:"resource"`
	Guarantee  *int64 `json:"guarantee,omitempty"`
	Capability *int64 `json:"capability,omitempty"`
	// Entitled is its share now, Used what its jobs hold, Wanted what they would hold if they could.
	Entitled int64 `json:"entitled"`
	Used     int64 `json:"used"`
	Wanted   int64 `json:"wanted"`
}

// History is samples of queues over time, the oldest first.
type History struct {
	// EverySeconds is between samples; of a time without a leader there are none.
	EverySeconds int64         `json:"everySeconds"`
	Queues       []QueueSeries `json:"queues"`
}

// QueueSeries is one queue over time: GPUs in thousandths.
type QueueSeries struct {
	Queue    string      `json:"queue"`
	At       []time.Time `json:"at"`
	Entitled []int64     `json:"entitled"`
	Used     []int64     `json:"used"`
	Wanted   []int64     `json:"wanted"`
}
