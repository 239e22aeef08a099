package migrate

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
)

// Result is what rows with the verdict Set amount to.
type Result struct {
	// profiles are names of schedulers that pods ask for, in the order they were found.
	profiles []string
	// args are arguments of plugins, by plugin; values are further values of the chart.
	args, values map[string]any
	// scores are weights of kube-scheduler's own scores, 0 for off.
	scores map[string]int
	// queues are Queue objects.
	queues []map[string]any
}

// profile adds a name of the scheduler.
func (r *Result) profile(name string) {
	if name != "" && !slices.Contains(r.profiles, name) {
		r.profiles = append(r.profiles, name)
	}
}

// flag adds a flag of the agent, once.
func (r *Result) flag(flag string) {
	agent, _ := r.values["agent"].(map[string]any)
	list, _ := agent["extraArgs"].([]any)
	if !slices.Contains(list, any(flag)) {
		delete(agent, "extraArgs")
		setAt(&r.values, append(list, flag), "agent", "extraArgs")
	}
}

// score sets the weight of one of kube-scheduler's own scores.
func (r *Result) score(name string, weight int) {
	if r.scores == nil {
		r.scores = map[string]int{}
	}
	r.scores[name] = weight
}

// setAt sets a value at a path of keys; false when another input set another one.
func setAt(root *map[string]any, value any, path ...string) bool {
	if *root == nil {
		*root = map[string]any{}
	}
	in := *root
	for _, key := range path[:len(path)-1] {
		next, ok := in[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			in[key] = next
		}
		in = next
	}
	last := path[len(path)-1]
	if old, there := in[last]; there && !reflect.DeepEqual(old, value) {
		return false
	}
	in[last] = value
	return true
}

// Config is a KubeSchedulerConfiguration: config/scheduler.yaml with what was set.
func (r *Result) Config() ([]byte, error) {
	object, err := r.config()
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(object)
	return append([]byte("# config/scheduler.yaml with what tangram migrate found: gpu-scheduler --config=FILE\n"), text...), err
}

func (r *Result) config() (map[string]any, error) {
	object := map[string]any{}
	if err := yaml.Unmarshal(config.Scheduler(), &object); err != nil {
		return nil, fmt.Errorf("config/scheduler.yaml: %w", err)
	}
	list, _ := object["profiles"].([]any)
	if len(list) == 0 {
		return nil, fmt.Errorf("config/scheduler.yaml has no profiles")
	}
	have := func(name string) bool {
		return slices.ContainsFunc(list, func(p any) bool { return p.(map[string]any)["schedulerName"] == name })
	}
	for _, name := range r.profiles {
		if !have(name) {
			p := runtime.DeepCopyJSONValue(list[0]).(map[string]any)
			p["schedulerName"] = name
			list = append(list, p)
		}
	}
	for i := range list {
		p := runtime.DeepCopyJSONValue(list[i]).(map[string]any)
		r.applyTo(p)
		list[i] = p
	}
	object["profiles"] = list
	return object, nil
}

// applyTo puts arguments and weights into a profile.
func (r *Result) applyTo(profile map[string]any) {
	configs, _ := profile["pluginConfig"].([]any)
	for _, plugin := range slices.Sorted(maps.Keys(r.args)) {
		at := slices.IndexFunc(configs, func(c any) bool { return c.(map[string]any)["name"] == plugin })
		if at < 0 {
			configs = append(configs, map[string]any{"name": plugin, "args": map[string]any{}})
			at = len(configs) - 1
		}
		args, _ := configs[at].(map[string]any)["args"].(map[string]any)
		configs[at].(map[string]any)["args"] = merge(args, r.args[plugin].(map[string]any))
	}
	profile["pluginConfig"] = configs
	plugins, _ := profile["plugins"].(map[string]any)
	score, _ := plugins["score"].(map[string]any)
	if score == nil || len(r.scores) == 0 {
		return
	}
	enabled, _ := score["enabled"].([]any)
	disabled, _ := score["disabled"].([]any)
	for _, name := range slices.Sorted(maps.Keys(r.scores)) {
		if weight := r.scores[name]; weight > 0 {
			enabled = append(enabled, map[string]any{"name": name, "weight": weight})
		} else {
			disabled = append(disabled, map[string]any{"name": name})
		}
	}
	score["enabled"] = enabled
	if len(disabled) > 0 {
		score["disabled"] = disabled
	}
}

// merge lays values over others, map by map.
func merge(under, over map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, under)
	for key, value := range over {
		a, okA := out[key].(map[string]any)
		b, okB := value.(map[string]any)
		if okA && okB {
			value = merge(a, b)
		}
		out[key] = value
	}
	return out
}

// chartProfiles are the profiles of the chart's default values.
var chartProfiles = []string{names.SchedulerName, "scheduler-plugins-scheduler", names.VolcanoSchedulerName}

// Values are values of the chart charts/gpu-scheduler.
func (r *Result) Values() ([]byte, error) {
	out := map[string]any{}
	maps.Copy(out, r.values)
	scheduler := map[string]any{}
	profiles := slices.Clone(chartProfiles)
	for _, name := range r.profiles {
		if !slices.Contains(profiles, name) {
			profiles = append(profiles, name)
		}
	}
	if len(profiles) > len(chartProfiles) {
		scheduler["profiles"] = profiles
	}
	if len(r.scores) > 0 { // weights of kube-scheduler's own scores have no value of their own
		object, err := r.config()
		if err != nil {
			return nil, err
		}
		scheduler["config"], scheduler["profiles"] = object, profiles
	} else if len(r.args) > 0 {
		scheduler["pluginArgs"] = r.args
	}
	if len(scheduler) > 0 {
		before, _ := out["scheduler"].(map[string]any)
		out["scheduler"] = merge(before, scheduler)
	}
	text, err := yaml.Marshal(out)
	return append([]byte("# helm upgrade --install gpu-scheduler charts/gpu-scheduler --namespace tangram-system -f FILE\n"), text...), err
}

// Queues are Queue objects, for kubectl apply; empty when the inputs define none.
func (r *Result) Queues() ([]byte, error) {
	var docs []string
	for _, q := range r.queues {
		text, err := yaml.Marshal(q)
		if err != nil {
			return nil, err
		}
		docs = append(docs, string(text))
	}
	return []byte(strings.Join(docs, "---\n")), nil
}
