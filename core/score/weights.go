package score

import "fmt"

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
