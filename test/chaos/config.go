package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config says what a run does.
type Config struct {
	// Bin is the folder of the programs, as make build leaves it; Dir gets the
	// cluster's state, the logs, history.log and result.json.
	Bin, Dir string
	// Seed fixes the load and the order of faults.
	Seed uint64
	// Duration is how long load and faults last; the start and the end come on top.
	Duration time.Duration
	// Faults and Load are the kinds that take part, with weights.
	Faults, Load Weights
	// Lease is the schedulers' lease duration; processes are stopped for 1.3 to 2.7
	// times as long, so that the other replica takes over.
	Lease time.Duration
	// Pause is the least time between two faults; up to twice as long is added.
	Pause time.Duration
	// Out gets one line per fault, breach and step.
	Out io.Writer
}

// Weights are kinds by name; one of weight 2 is chosen twice as often.
type Weights map[string]int

// ParseWeights reads a list such as "leader-stop:3,node-loss" or "all,-leader-stop".
func ParseWeights(text string, known []string) (Weights, error) {
	w := Weights{}
	for _, item := range strings.Split(text, ",") {
		name, number, weighted := strings.Cut(strings.TrimSpace(item), ":")
		weight := 1
		if weighted {
			var err error
			if weight, err = strconv.Atoi(number); err != nil || weight < 0 {
				return nil, fmt.Errorf("%q: the weight is not a number from 0 on", item)
			}
		}
		without, removes := strings.CutPrefix(name, "-")
		switch {
		case name == "" || name == "none":
		case name == "all":
			for _, k := range known {
				w[k] = weight
			}
		case removes && slices.Contains(known, without):
			delete(w, without)
		case slices.Contains(known, name):
			w[name] = weight
		default:
			return nil, fmt.Errorf("%q is not one of %s", name, strings.Join(known, ", "))
		}
	}
	return w, nil
}

// pick chooses a kind; draw returns a number below n. Empty weights give "".
func (w Weights) pick(draw func(n int) int) string {
	names := slices.Sorted(maps.Keys(w))
	sum := 0
	for _, name := range names {
		sum += w[name]
	}
	if sum == 0 {
		return ""
	}
	at := draw(sum)
	for _, name := range names {
		if at -= w[name]; at < 0 {
			return name
		}
	}
	return ""
}
