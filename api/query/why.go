package query

import "time"

// Why is why a gang waits, what would help and when it starts.
type Why struct {
	At   time.Time `json:"at"`
	Gang Gang      `json:"gang"`
	// Found: the scheduler knows the object. When it does not, Text says what is wrong:
	// another scheduler's name, a gate, no such object.
	Found bool `json:"found"`
	// Reason is zero for who runs.
	Reason Reason `json:"reason"`
	// Text is the answer in one sentence, Helps what would help, the surest first.
	Text  string `json:"text"`
	Helps []Help `json:"helps"`
	// Start is when it is expected to run.
	Start Start `json:"start"`
	// Queue is where it waits.
	Queue *Queue `json:"queue,omitempty"`
	// Ahead are gangs that start before it, the first few that the caller may see; the rest is counted.
	Ahead       []GangRef `json:"ahead,omitempty"`
	AheadHidden int       `json:"aheadHidden,omitempty"`
	// Others is how many more gangs are of the object that was asked about; the answer is for the first that waits.
	Others int `json:"others,omitempty"`
}

// Reason is core/explain.Reason as it travels: a code with the numbers that go with it.
type Reason struct {
	// Code is the stable name of core/explain.Code; Class says who can help: Capacity, Quota, Members, Turn, Owner.
	Code  string `json:"code"`
	Class string `json:"class"`
	// Never: nothing that ends or is freed would let it start.
	Never     bool         `json:"never,omitempty"`
	Need      int          `json:"need,omitempty"`
	Exist     int          `json:"exist,omitempty"`
	Placed    int          `json:"placed,omitempty"`
	Role      string       `json:"role,omitempty"`
	Subgroup  string       `json:"subgroup,omitempty"`
	Level     string       `json:"level,omitempty"`
	Queue     string       `json:"queue,omitempty"`
	Namespace string       `json:"namespace,omitempty"`
	Resource  string       `json:"resource,omitempty"`
	Want      int64        `json:"want,omitempty"`
	Limit     int64        `json:"limit,omitempty"`
	Used      int64        `json:"used,omitempty"`
	Ahead     int          `json:"ahead,omitempty"`
	Detail    string       `json:"detail,omitempty"`
	Text      string       `json:"text"`
	Fit       int          `json:"fit"`
	Nodes     []NodesCause `json:"nodes,omitempty"`
}

// NodesCause is one cause for which nodes cannot take a member, counted.
type NodesCause struct {
	Code   string `json:"code"`
	Nodes  int    `json:"nodes"`
	Need   int64  `json:"need"`
	Best   int64  `json:"best"`
	Detail string `json:"detail,omitempty"`
	Text   string `json:"text"`
	// Examples are some of these nodes, when the caller may list nodes.
	Examples []string `json:"examples,omitempty"`
}

// Help is something that would let it start, or let it start sooner.
type Help struct {
	// Who can do it: owner, administrator, time.
	Who string `json:"who"`
	// Text says what, with numbers.
	Text string `json:"text"`
	// Command does it, where one does; may be empty.
	Command string `json:"command,omitempty"`
}

// How a start is known.
const (
	StartsNow      = "now"      // it has a place
	StartsReserved = "reserved" // nodes are kept for it from a known time on
	StartsForecast = "forecast" // by the expected ends of what runs and waits before it
	StartsUnknown  = "unknown"  // some runtime before it is not known
	StartsNever    = "never"    // as things are
)

// Start is when a gang is expected to start.
type Start struct {
	// Known is one of the words above, At the time of reserved and forecast.
	Known string     `json:"known"`
	At    *time.Time `json:"at,omitempty"`
	// Because says what the time hangs on.
	Because string `json:"because,omitempty"`
	// Nodes that it will use, when the caller may list nodes.
	Nodes []string `json:"nodes,omitempty"`
}
