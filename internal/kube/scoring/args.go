package scoring

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Args decide between nodes that fit: the arguments of GPUScore, and the file that
// gpu-extender reads.
type Args struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// Weights of the objectives. Left out: 25, 20, 20, 15, 10, 10 and 5 for each of
	// the four that are measured. Given: those not named count 0, so seed 003's
	// three-weight form means what it says.
	Weights *WeightArgs `json:"weights,omitempty"`
	// Placement is for pods about which nothing else says anything: binpack or
	// spread. Empty: the other objectives decide.
	Placement string `json:"placement,omitempty"`
	// Placements are for the pods of some queues and namespaces.
	Placements PlacementArgs `json:"placements,omitempty"`
	// Tenants are the standing of tenants. Left out: requirement document 003's. Given:
	// only what it lists.
	Tenants *TenantArgs `json:"tenants,omitempty"`
	// TelemetryMaxAge is how old what agents measured may be to count; older counts as
	// not measured. It is one for all profiles: those that give it must give the same.
	// Left out: 15m.
	TelemetryMaxAge string `json:"telemetryMaxAge,omitempty"`
	// Volcano are arguments of Volcano's plugins binpack and deviceshare. What Tangram's
	// own arguments say goes before.
	Volcano VolcanoArgs `json:"volcano,omitempty"`
}

// Settings are arguments that were checked.
type Settings struct {
	Weights    score.Weights
	Placements workload.Placements
	Tenants    dialect.Tenants
	// TelemetryMaxAge is 0 when nothing is said.
	TelemetryMaxAge time.Duration
}

// Settings checks the arguments. An error names the field.
func (a *Args) Settings() (s Settings, err error) {
	if s.Weights, err = a.weights(); err != nil {
		return s, err
	}
	if s.Placements, err = a.placements(); err != nil {
		return s, err
	}
	if s.Tenants, err = a.standing(); err != nil {
		return s, err
	}
	volcano, err := a.Volcano.read()
	if err != nil {
		return s, err
	}
	volcano.apply(a, &s)
	s.TelemetryMaxAge, err = a.telemetryMaxAge()
	return s, err
}

// Profile is what the settings say about pods, and which models are handed out.
func (s Settings) Profile(models []model.GPUModel) workload.Profile {
	return workload.Profile{Placements: s.Placements, Models: models, Weights: s.Weights, Tenants: &s.Tenants}
}

// telemetryMaxAge checks how old telemetry may be; 0 when nothing is said.
func (a *Args) telemetryMaxAge() (time.Duration, error) {
	if a.TelemetryMaxAge == "" {
		return 0, nil
	}
	age, err := time.ParseDuration(a.TelemetryMaxAge)
	if err != nil || age < time.Second {
		return 0, fmt.Errorf("telemetryMaxAge: %q is not a duration like 15m, of a second or more", a.TelemetryMaxAge)
	}
	return age, nil
}

// PlacementArgs are placements by the name of a queue (label tangram.dev/queue) or
// namespace. The annotation of pod or Namespace goes before.
type PlacementArgs struct {
	Queues     map[string]string `json:"queues,omitempty"`
	Namespaces map[string]string `json:"namespaces,omitempty"`
}

// WeightArgs are the weights by name; only their proportions matter.
type WeightArgs struct {
	Utilization   int `json:"utilization,omitempty"`
	TypeMatch     int `json:"typeMatch,omitempty"`
	Topology      int `json:"topology,omitempty"`
	Fragmentation int `json:"fragmentation,omitempty"`
	Priority      int `json:"priority,omitempty"`
	Workload      int `json:"workload,omitempty"`
	// What was measured: of the chosen devices, then of all the node's.
	LiveUtilization int `json:"liveUtilization,omitempty"`
	LiveMemory      int `json:"liveMemory,omitempty"`
	Temperature     int `json:"temperature,omitempty"`
	Power           int `json:"power,omitempty"`
}

// weights checks the arguments.
func (a *Args) weights() (score.Weights, error) {
	if a.Weights == nil {
		return score.DefaultWeights(), nil
	}
	w := score.Weights{
		score.Utilization:   a.Weights.Utilization,
		score.TypeMatch:     a.Weights.TypeMatch,
		score.Topology:      a.Weights.Topology,
		score.Fragmentation: a.Weights.Fragmentation,
		score.Priority:      a.Weights.Priority,
		score.Workload:      a.Weights.Workload,

		score.LiveUtilization: a.Weights.LiveUtilization,
		score.LiveMemory:      a.Weights.LiveMemory,
		score.Temperature:     a.Weights.Temperature,
		score.Power:           a.Weights.Power,
	}
	return w, w.Validate()
}

// placements checks the arguments.
func (a *Args) placements() (out workload.Placements, err error) {
	if a.Placement != "" {
		if out.Otherwise, err = dialect.ParsePlacement(a.Placement); err != nil {
			return out, fmt.Errorf("placement: %w", err)
		}
	}
	if out.Queues, err = placementsBy("queues", a.Placements.Queues); err != nil {
		return out, err
	}
	out.Namespaces, err = placementsBy("namespaces", a.Placements.Namespaces)
	return out, err
}

func placementsBy(field string, words map[string]string) (map[string]model.Placement, error) {
	out := map[string]model.Placement{}
	for _, name := range slices.Sorted(maps.Keys(words)) {
		p, err := dialect.ParsePlacement(words[name])
		if err != nil {
			return nil, fmt.Errorf("placements.%s[%s]: %w", field, name, err)
		}
		if name == "" {
			return nil, fmt.Errorf("placements.%s: an empty name", field)
		}
		out[name] = p
	}
	return out, nil
}
