package score

import "fmt"

// Objective is one thing that makes a placement good.
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

// String is the objective's name in configuration and reports.
func (o Objective) String() string {
	return [NumObjectives]string{
		"utilization", "typeMatch", "topology", "fragmentation", "priority", "workload",
		"liveUtilization", "liveMemory", "temperature", "power",
	}[o]
}

// Weights say how much each objective counts; only their proportions matter.
type Weights [NumObjectives]int

// DefaultWeights are seed 003's, and little for what was measured: the last minute
// should break ties, not outweigh what a placement means for hours.
func DefaultWeights() Weights { return Weights{25, 20, 20, 15, 10, 10, 5, 5, 5, 5} }

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
