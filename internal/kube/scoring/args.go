package scoring

import (
	"encoding/json"
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
	// Weights of the objectives, by name (core/score, objectives); only their proportions
	// matter. Left out: the defaults. Given: those not named count 0, so requirement
	// document 003's three-weight form means what it says.
	Weights Weights `json:"weights,omitempty"`
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

// Weights are weights of objectives by name.
type Weights map[string]int

// UnmarshalJSON reads weights. Unlike that of a plain map, its error names the objective.
func (w *Weights) UnmarshalJSON(data []byte) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(data, &values); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	*w = nil // null: left out
	if values == nil {
		return nil
	}
	read := make(Weights, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		var n int
		if err := json.Unmarshal(values[name], &n); err != nil {
			return fmt.Errorf("weights.%s: %s is not a whole number", name, values[name])
		}
		read[name] = n
	}
	*w = read
	return nil
}

// Settings are arguments that were checked.
type Settings struct {
	Weights         score.Weights
	Placements      workload.Placements
	Tenants         dialect.Tenants
	TelemetryMaxAge time.Duration // 0 when nothing is said
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

// weights checks the arguments.
func (a *Args) weights() (score.Weights, error) {
	if a.Weights == nil {
		return score.DefaultWeights(), nil
	}
	var w score.Weights
	for _, name := range slices.Sorted(maps.Keys(a.Weights)) {
		o, ok := score.ParseObjective(name)
		if !ok {
			return w, fmt.Errorf("weights.%s: no such objective; there are %s", name, fmt.Sprint(score.Objectives()))
		}
		w[o] = a.Weights[name]
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
