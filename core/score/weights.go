package score

import "fmt"

// Objective is one criterion of a good placement.
type Objective uint8

// The objectives, in the order reports use.
const (
	Utilization Objective = iota
	TypeMatch
	Topology
	Fragmentation
	Priority
	Workload
	LiveUtilization
	LiveMemory
	Temperature
	Power
	NumObjectives
)

// Basis says what, beside the request, an objective's score of a node depends on. It
// decides what the planner may conclude from one node about others like it.
type Basis uint8

const (
	// OfKind: the kind of node and the devices chosen there.
	OfKind Basis = iota + 1
	// OfClaims: also the holders on the node, for requests with a direction
	// (NodePlacement).
	OfClaims
	// OfGroup: also the location of the request's group, for requests that prefer to be
	// near it (Prefer.Level).
	OfGroup
	// OfTelemetry: also the measurements on the node.
	OfTelemetry
	// OfFleet: the whole fleet. The planner rates it, not this package.
	OfFleet
)

// objectives has each objective's name in configuration and reports, its basis and its
// default weight. A test fails for an objective that is not listed.
var objectives = [NumObjectives]struct {
	name   string
	basis  Basis
	weight int
}{
	Utilization:     {"utilization", OfClaims, 25},
	TypeMatch:       {"typeMatch", OfKind, 20},
	Topology:        {"topology", OfGroup, 20},
	Fragmentation:   {"fragmentation", OfFleet, 15},
	Priority:        {"priority", OfKind, 10},
	Workload:        {"workload", OfKind, 10},
	LiveUtilization: {"liveUtilization", OfTelemetry, 5},
	LiveMemory:      {"liveMemory", OfTelemetry, 5},
	Temperature:     {"temperature", OfTelemetry, 5},
	Power:           {"power", OfTelemetry, 5},
}

// String is the objective's name in configuration and reports.
func (o Objective) String() string { return objectives[o].name }

// Basis is what the objective depends on.
func (o Objective) Basis() Basis { return objectives[o].basis }

// Weights say how much each objective counts; only their proportions matter.
type Weights [NumObjectives]int

// DefaultWeights are seed 003's, and little for what was measured: the last minute
// should break ties, not outweigh what a placement means for hours.
func DefaultWeights() (w Weights) {
	for o := range w {
		w[o] = objectives[o].weight
	}
	return w
}

// maxWeight keeps sums far from overflow and typing errors visible.
const maxWeight = 1_000_000

// Validate names the weight that is out of range. All zero is an error too:
// every node would score the same.
func (w Weights) Validate() error {
	sum := 0
	for o, v := range w {
		if v < 0 || v > maxWeight {
			return fmt.Errorf("weights.%s: %d is not between 0 and %d", Objective(o), v, maxWeight)
		}
		sum += v
	}
	if sum == 0 {
		return fmt.Errorf("weights: all are 0, so no node would be better than another")
	}
	return nil
}

// Card holds the score of each objective, 0..100.
type Card [NumObjectives]int

// Scale is the total of a perfect card. Totals have two more digits than the
// objectives so that small differences decide.
const Scale = 10_000

// Total is the weighted mean of the card, 0..Scale.
func (w Weights) Total(c Card) int {
	sum, weights := 0, 0
	for o := range w {
		sum += w[o] * c[o]
		weights += w[o]
	}
	if weights == 0 {
		return 0
	}
	return sum * (Scale / 100) / weights
}
