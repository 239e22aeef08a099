package query

import "time"

// Explain is why a pod is where it is.
type Explain struct {
	At      time.Time `json:"at"`
	Pod     PodRef    `json:"pod"`
	Gang    GangRef   `json:"gang"`
	Node    string    `json:"node"`
	Devices []Part    `json:"devices"`
	// Terms are the objectives that decided, with weights; Total is their weighted mean, 0 to 100. They are
	// computed now, with the pod taken out: the scores of the moment of the decision are not kept. Decided says
	// when that was.
	Decided *time.Time `json:"decided,omitempty"`
	Terms   []Term     `json:"terms"`
	Total   int        `json:"total"`
	// Fleet are the terms of the fragmentation objective, in micro-GPU (costMilliGPU: thousandths of a GPU).
	Fleet map[string]int64 `json:"fleet,omitempty"`
	// RunnersUp are other nodes that could take it, the best first; Refused why the rest cannot.
	RunnersUp []RunnerUp   `json:"runnersUp"`
	Refused   []NodesCause `json:"refused,omitempty"`
	// Fit is how many nodes would take it, its own included; Hidden counts runners-up that
	// the caller may not see by name.
	Fit    int `json:"fit"`
	Hidden int `json:"hidden,omitempty"`
	// Note says what else has to be known; may be empty.
	Note string `json:"note,omitempty"`
}

// Term is one objective: its score 0..100 and its weight.
type Term struct {
	Name   string `json:"name"`
	Score  int    `json:"score"`
	Weight int    `json:"weight"`
}

// RunnerUp is another node that could take the pod.
type RunnerUp struct {
	Node  string `json:"node"`
	Total int    `json:"total"`
	Terms []Term `json:"terms"`
}

// Timeline is what was decided lately, the oldest first.
type Timeline struct {
	// Version is to be given as ParamSince to learn what came since. Lost: what was between is forgotten.
	Version uint64  `json:"version"`
	Lost    bool    `json:"lost,omitempty"`
	Items   []Event `json:"items"`
	Hidden  int     `json:"hidden,omitempty"`
}

// Kinds of events.
const (
	EventPlaced   = "Placed"
	EventStarted  = "Started" // bound
	EventEvicted  = "Evicted"
	EventEnded    = "Ended"
	EventFailed   = "StartFailed"
	EventReserved = "Reserved"
)

// Event is one thing that happened to a gang.
type Event struct {
	Version uint64    `json:"version"`
	At      time.Time `json:"at"`
	Kind    string    `json:"kind"`
	Gang    GangRef   `json:"gang"`
	Queue   string    `json:"queue"`
	Pod     *PodRef   `json:"pod,omitempty"`
	Nodes   []string  `json:"nodes,omitempty"`
	Milli   int64     `json:"milli,omitempty"`
	// For is the gang that an eviction makes room for; absent when hidden.
	For  *GangRef `json:"for,omitempty"`
	Text string   `json:"text"`
}
