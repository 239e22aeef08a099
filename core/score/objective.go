package score

import (
	"slices"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

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

// row is what is known of an objective.
type row struct {
	// name is that in configuration and reports, best says what a score of 100 means.
	name, best string
	basis      Basis
	// weight is the default.
	weight int
	// rate is the score of a placement on a set of a node's free devices, 0..100; nil for
	// an objective OfFleet.
	rate func(r *model.Request, v ledger.View, set model.Mask) int
}

// objectives has one row per objective: all that configuration, reports and documents know
// of it. A test fails for an objective without a row.
var objectives = [NumObjectives]row{
	Utilization:     {"utilization", "binpack: all GPUs of the node in use; spread: none; with neither: 50 everywhere", OfClaims, 25, utilization},
	TypeMatch:       {"typeMatch", "a model the pod named; 70 for one that can stand in", OfKind, 20, typeMatch},
	Topology:        {"topology", "the chosen GPUs are linked as well as can be", OfGroup, 20, topology},
	Fragmentation:   {"fragmentation", "the rest of the node stays as useful to other requests as it was; 50 with spread", OfFleet, 15, nil},
	Priority:        {"priority", "hardware that suits the tenant's priority (priority class, namespace); without one 50", OfKind, 10, priority},
	Workload:        {"workload", "hardware that suits the label `workload-type`", OfKind, 10, workload},
	LiveUtilization: {"liveUtilization", "the chosen GPUs are measured idle", OfTelemetry, 5, liveUtilization},
	LiveMemory:      {"liveMemory", "the chosen GPUs' memory is measured empty", OfTelemetry, 5, liveMemory},
	Temperature:     {"temperature", "the node's GPUs are at 40 °C or below; 0 at 90 °C", OfTelemetry, 5, temperature},
	Power:           {"power", "the node's GPUs draw nothing; 0 at the board power of their model", OfTelemetry, 5, power},
}

// Objectives are all objectives, in their order.
func Objectives() []Objective {
	out := make([]Objective, NumObjectives)
	for o := range NumObjectives {
		out[o] = o
	}
	return out
}

// ParseObjective is the reverse of String; false for an unknown name.
func ParseObjective(name string) (Objective, bool) {
	o := slices.IndexFunc(objectives[:], func(r row) bool { return r.name == name })
	return Objective(max(o, 0)), o >= 0
}

// String is the objective's name in configuration and reports.
func (o Objective) String() string { return objectives[o].name }

// Best says what a score of 100 means.
func (o Objective) Best() string { return objectives[o].best }

// Basis is what the objective depends on.
func (o Objective) Basis() Basis { return objectives[o].basis }
