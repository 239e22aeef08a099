package publish

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// TestOverlay: what this version knows is replaced, what it does not know stays, in
// every map and in the items of lists.
func TestOverlay(t *testing.T) {
	spec, status := reflect.TypeFor[v1alpha1.GPUNodeSpec](), reflect.TypeFor[v1alpha1.GPUNodeStatus]()
	for _, tt := range []struct {
		name            string
		t               reflect.Type
		old, want, gets string
	}{
		{"nothing there", spec, `{}`, `{"devices":[{"index":0}]}`, `{"devices":[{"index":0}]}`},
		{"unknown keys stay", spec, `{"new":1,"devices":[{"index":0,"new":{"a":1}}],"driver":{"new":2}}`,
			`{"devices":[{"index":0,"model":"x"}],"driver":{"version":"1"}}`,
			`{"new":1,"devices":[{"index":0,"model":"x","new":{"a":1}}],"driver":{"version":"1","new":2}}`},
		{"known keys that are no more go", spec, `{"sharing":{"strategy":"MPS","new":1},"devices":[{"index":0,"numa":1,"new":1}]}`,
			`{"devices":[{"index":0}]}`, `{"devices":[{"index":0,"new":1}]}`},
		{"operators' cordons stay", spec, `{"cordoned":["0"],"devices":[]}`, `{"devices":[],"cordoned":["9"]}`, `{"cordoned":["0"],"devices":[]}`},
		{"a device that is gone goes", spec, `{"devices":[{"index":0,"new":1},{"index":1,"new":2}]}`, `{"devices":[{"index":1}]}`, `{"devices":[{"index":1,"new":2}]}`},
		{"another card has nothing of the old one", spec, `{"devices":[{"index":0,"uuid":"a","new":1}]}`, `{"devices":[{"index":0,"uuid":"b"}]}`, `{"devices":[{"index":0,"uuid":"b"}]}`},
		{"inside MIG", spec, `{"devices":[{"index":0,"mig":{"new":1,"profiles":[{"id":19,"name":"a","new":2}],"instances":[{"profile":"1g","start":0,"new":3},{"profile":"1g","start":1,"new":4}]}}]}`,
			`{"devices":[{"index":0,"mig":{"enabled":true,"profiles":[{"id":19,"name":"b"}],"instances":[{"profile":"1g","start":1}]}}]}`,
			`{"devices":[{"index":0,"mig":{"new":1,"enabled":true,"profiles":[{"id":19,"name":"b","new":2}],"instances":[{"profile":"1g","start":1,"new":4}]}}]}`},
		{"links", spec, `{"devices":[],"links":[{"between":[0,1],"class":"NVLink","new":1}]}`, `{"devices":[],"links":[{"between":[0,1],"class":"NVLink","count":2}]}`,
			`{"devices":[],"links":[{"between":[0,1],"class":"NVLink","count":2,"new":1}]}`},
		{"conditions of others stay", status, `{"conditions":[{"type":"Other","status":"True"},{"type":"DriverReady","status":"False","new":1}]}`,
			`{"conditions":[{"type":"DriverReady","status":"True"}]}`,
			`{"conditions":[{"type":"DriverReady","status":"True","new":1},{"type":"Other","status":"True"}]}`},
		{"things of another kind are replaced", spec, `{"devices":"none","driver":[1]}`, `{"devices":[{"index":0}],"driver":{"version":"1"}}`,
			`{"devices":[{"index":0}],"driver":{"version":"1"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old, want, gets := parse(t, tt.old), parse(t, tt.want), parse(t, tt.gets)
			got := overlay(old, want, tt.t)
			if !equal(got, gets) {
				text, _ := json.Marshal(got)
				t.Errorf("got  %s\nwant %s", text, tt.gets)
			}
			if !equal(old, parse(t, tt.old)) || !equal(want, parse(t, tt.want)) {
				t.Error("an argument was changed")
			}
			if patched := apply(old, mergePatch(old, got)); !equal(patched, gets) {
				t.Errorf("the patch leads to %v", patched)
			}
			if again := mergePatch(got, overlay(got, want, tt.t)); len(again) > 0 {
				t.Errorf("a second time changes %v", again)
			}
		})
	}
}
