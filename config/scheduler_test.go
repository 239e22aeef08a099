package config

import (
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestSchedulerForAll: it is the default configuration with one more profile, which has the
// same plugins and arguments as the others.
func TestSchedulerForAll(t *testing.T) {
	read := func(data []byte) map[string]any {
		var c map[string]any
		if err := yaml.UnmarshalStrict(data, &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	plain, all := read(Scheduler()), read(SchedulerForAll())
	profiles := all["profiles"].([]any)
	last := profiles[len(profiles)-1].(map[string]any)
	if last["schedulerName"] != "default-scheduler" {
		t.Errorf("the last profile is %v", last["schedulerName"])
	}
	all["profiles"] = profiles[:len(profiles)-1]
	if !reflect.DeepEqual(plain, all) {
		t.Error("more differs than the last profile")
	}
	first := profiles[0].(map[string]any)
	for _, field := range []string{"plugins", "pluginConfig", "percentageOfNodesToScore"} {
		if !reflect.DeepEqual(first[field], last[field]) || last[field] == nil {
			t.Errorf("%s is not that of the first profile", field)
		}
	}
}
