package scoring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
)

func parsed(t *testing.T, text string) *Args {
	t.Helper()
	var a Args
	if err := yaml.UnmarshalStrict([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	return &a
}

func podOf(namespace, class string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: v1.PodSpec{PriorityClassName: class}}
}

func TestSettings(t *testing.T) {
	s, err := parsed(t, `{weights: {utilization: 40, typeMatch: 30, topology: 30}}`).Settings()
	if err != nil || s.Weights != (score.Weights{40, 30, 30}) {
		t.Errorf("three-weight form: got %v, %v", s.Weights, err)
	}
	s, err = parsed(t, `{weights: {liveUtilization: 1, liveMemory: 2, temperature: 3, power: 4}, placement: spread, placements: {queues: {batch: binpack}, namespaces: {web: spread}}, telemetryMaxAge: 90s, tenants: {priorityClasses: {gold: 95}, namespaces: {prod: 80}}}`).Settings()
	if err != nil {
		t.Fatal(err)
	}
	if w := s.Weights; w[score.LiveUtilization] != 1 || w[score.LiveMemory] != 2 || w[score.Temperature] != 3 || w[score.Power] != 4 {
		t.Errorf("live weights: got %v", w)
	}
	if p := s.Placements; p.Otherwise != model.Spread || p.Queues["batch"] != model.Binpack || p.Namespaces["web"] != model.Spread {
		t.Errorf("placements: got %+v", p)
	}
	if s.TelemetryMaxAge != 90*time.Second {
		t.Errorf("telemetryMaxAge: got %s", s.TelemetryMaxAge)
	}
	for want, p := range map[int]*v1.Pod{95: podOf("prod", "gold"), 80: podOf("prod", "other"), 0: podOf("production", "high-priority")} {
		if got := s.Tenants.Of(p); got != want {
			t.Errorf("standing of %s in %s: %d, want %d", p.Spec.PriorityClassName, p.Namespace, got, want)
		}
	}
	s, err = (&Args{}).Settings()
	if err != nil || s.Weights != score.DefaultWeights() || s.TelemetryMaxAge != 0 {
		t.Errorf("nothing said: got %+v, %v", s, err)
	}
	for want, p := range map[int]*v1.Pod{ // requirement document 003
		100: podOf("development", "high-priority"), 70: podOf("x", "medium-priority"), 30: podOf("production", "low-priority"),
		90: podOf("critical", ""), 60: podOf("testing", "other"), 40: podOf("development", ""), 0: podOf("default", ""),
	} {
		if got := s.Tenants.Of(p); got != want {
			t.Errorf("default standing of %q in %s: %d, want %d", p.Spec.PriorityClassName, p.Namespace, got, want)
		}
	}
}

func TestInvalidSettings(t *testing.T) {
	for text, want := range map[string]string{
		`{weights: {power: -1}}`:                          `weights.power: -1 is not between`,
		`{weights: {}}`:                                   `weights: all are 0`,
		`{weights: {beauty: 1}}`:                          `weights.beauty: no such objective; there are [utilization typeMatch `,
		`{placement: tight}`:                              `placement: "tight" is not binpack or spread`,
		`{placements: {queues: {a: x}}}`:                  `placements.queues[a]: "x" is not binpack or spread`,
		`{placements: {namespaces: {a: ""}}}`:             `placements.namespaces[a]: "" is not binpack or spread`,
		`{placements: {namespaces: {"": binpack}}}`:       `placements.namespaces: an empty name`,
		`{telemetryMaxAge: soon}`:                         `telemetryMaxAge: "soon" is not a duration`,
		`{telemetryMaxAge: -1m}`:                          `telemetryMaxAge: "-1m" is not a duration`,
		`{telemetryMaxAge: 1ms}`:                          `telemetryMaxAge: "1ms" is not a duration`,
		`{tenants: {namespaces: {prod: 101}}}`:            `tenants.namespaces[prod]: 101 is not between 1 and 100`,
		`{tenants: {priorityClasses: {gold: 0}}}`:         `tenants.priorityClasses[gold]: 0 is not between 1 and 100`,
		`{tenants: {priorityClasses: {"": 5}}}`:           `tenants.priorityClasses: an empty name`,
		`{tenants: {namespaces: {a: 1, b: -3, c: 1000}}}`: `tenants.namespaces[b]: -3 is not between 1 and 100`,
	} {
		if _, err := parsed(t, text).Settings(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestWeightOfWrongType: the error names the weight, not only the map.
func TestWeightOfWrongType(t *testing.T) {
	var a Args
	err := yaml.UnmarshalStrict([]byte(`{weights: {topology: much}}`), &a)
	if err == nil || !strings.Contains(err.Error(), `weights.topology: "much" is not a whole number`) {
		t.Errorf("got %v", err)
	}
	if err := yaml.UnmarshalStrict([]byte(`{weights: null}`), &a); err != nil || a.Weights != nil {
		t.Errorf("null: got %v, %v", a.Weights, err)
	}
}

// TestShippedWeights: the configuration that is shipped names every objective, with its
// default weight: values of the chart change one of them and keep the others.
func TestShippedWeights(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "scheduler.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var shipped struct {
		Profiles []struct {
			PluginConfig []struct {
				Name string
				Args struct{ Weights map[string]int }
			}
		}
	}
	if err := yaml.Unmarshal(data, &shipped); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, profile := range shipped.Profiles {
		for _, plugin := range profile.PluginConfig {
			if plugin.Name != names.PluginScore {
				continue
			}
			found = true
			for _, o := range score.Objectives() {
				want := score.DefaultWeights()[o]
				if got, named := plugin.Args.Weights[o.String()]; !named {
					t.Errorf("config/scheduler.yaml names no weights.%s; its default is %d", o, want)
				} else if got != want {
					t.Errorf("config/scheduler.yaml: weights.%s is %d, its default is %d", o, got, want)
				}
			}
		}
	}
	if !found {
		t.Error("config/scheduler.yaml has no arguments of GPUScore")
	}
}
