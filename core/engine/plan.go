package engine

import "github.com/tangram-dev/tangram/core/gang"

// Start is members of a gang that have a place now. Their devices are held.
type Start struct {
	Gang ID
	Plan gang.Plan
	// Repair: the gang runs and gets members back, or grows.
	Repair bool
	// Promised is the first start time that a reservation gave the gang; 0 when it had
	// none, or has started before.
	Promised int64
}

// Plan is what to do now.
type Plan struct {
	// Effects are carried out first, in their order. With releases (Options.BatchTimeout)
	// they say member by member what Starts says gang by gang.
	Effects Effects
	// Starts are carried out next: their devices are held.
	Starts []Start
	Evicts []Evict
	// More: the step ended before all waiting gangs were looked at; the next one goes on
	// where this one stopped, and should follow soon.
	More bool
	// Wake is when the next step is due though nothing happens; 0: not by itself.
	Wake int64
}
