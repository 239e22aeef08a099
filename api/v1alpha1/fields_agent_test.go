package v1alpha1_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/publish"
)

// unpublished are fields of the agent's inventory that a GPUNode does not have.
var unpublished = map[string]string{
	"Devices[].Minor":                           "the device node, for containers",
	"Devices[].Brand":                           "an attribute of ResourceSlices",
	"Devices[].Architecture":                    "an attribute of ResourceSlices; labels have the family",
	"Devices[].Serial":                          "nothing needs it",
	"Devices[].PCIDeviceID":                     "nothing needs it",
	"Devices[].PCIeRoot":                        "an attribute of ResourceSlices",
	"Devices[].MIG.Fixed":                       "what the agent may cut, for ResourceSlices",
	"Devices[].MIG.Profiles[].SMs":              "labels",
	"Devices[].MIG.Profiles[].ComputeSlices":    "labels",
	"Devices[].MIG.Instances[].GPUInstance":     "the driver's number, for metrics",
	"Devices[].MIG.Instances[].ComputeInstance": "the driver's number, for device nodes",
	"Devices[].MIG.Instances[].Size":            "follows from the profile",
	"Devices[].MIG.Instances[].MemoryMiB":       "follows from the profile",
}

// inputs is everything that an agent publishes.
type inputs struct {
	options   publish.Options
	inventory device.Inventory
	health    publish.Health
	sample    device.Sample
	over      v1alpha1.MemoryUse
}

// full are inputs without an empty field.
func full() *inputs {
	in := &inputs{
		options:   publish.Options{Node: "n", Mode: v1alpha1.Serving, Version: "v", Sharing: &v1alpha1.Sharing{}},
		inventory: device.Inventory{Devices: make([]device.Device, 2), Links: []device.Link{{Between: []int{1, 2}, Class: "NVSwitch"}}},
		health:    publish.Health{State: v1alpha1.Degraded, Since: time.Unix(1e9, 0)},
		sample:    device.Sample{UUID: "x", At: time.Unix(1e9, 0), Values: map[device.Field]float64{}},
	}
	for i := range in.inventory.Devices {
		in.inventory.Devices[i] = device.Device{Index: 1 + i, UUID: strings.Repeat("x", 1+i), Vendor: "nvidia"}
	}
	for _, f := range device.Fields() {
		in.sample.Values[f] = 1
	}
	for _, part := range []any{&in.inventory, in.options.Sharing, &in.health, &in.over} {
		each(reflect.ValueOf(part).Elem(), "", true, func(_ string, leaf reflect.Value) {
			if leaf.IsZero() {
				change(leaf)
			}
		})
	}
	return in
}

// change gives a field another value: a zero one gets 1, true or x.
func change(leaf reflect.Value) {
	switch was := leaf.Interface().(type) {
	case time.Time:
		leaf.Set(reflect.ValueOf(was.Add(time.Hour)))
		return
	case metav1.Time:
		leaf.Set(reflect.ValueOf(metav1.NewTime(was.Add(time.Hour))))
		return
	}
	switch {
	case leaf.CanInt():
		leaf.SetInt(leaf.Int() + 1)
	case leaf.Kind() == reflect.String:
		leaf.SetString(leaf.String() + "x")
	case leaf.Kind() == reflect.Bool:
		leaf.SetBool(!leaf.Bool())
	}
}

// tell passes inputs to a publisher.
func (in *inputs) tell(p *publish.Publisher) {
	p.SetInventory(&in.inventory, map[string]bool{in.inventory.Devices[0].MIG.Instances[0].UUID: true})
	p.SetHealth([]publish.Health{in.health})
	p.SetSamples([]device.Sample{in.sample})
	p.SetOverMemory(map[string][]v1alpha1.MemoryUse{in.inventory.Devices[0].UUID: {in.over}})
}

// published is the GPUNode that a publisher writes at once: of inputs, and then of each change
// of them.
func published(t *testing.T, in *inputs, changes ...func(*inputs)) (out []map[string]any) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		in.options.API = s
		p := publish.New(in.options)
		go p.Run(t.Context())
		for _, change := range append([]func(*inputs){func(*inputs) {}}, changes...) {
			change(in)
			in.tell(p)
			synctest.Wait()
			out = append(out, s.copy())
		}
	})
	return out
}

// server has one Node and its GPUNode.
type server struct {
	mu     sync.Mutex
	object map[string]any
	writes int
}

func (s *server) GetNode(context.Context, string) (*v1.Node, error) {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}}, nil
}
func (s *server) PatchNode(ctx context.Context, name string, _ []byte) (*v1.Node, error) {
	return s.GetNode(ctx, name)
}
func (s *server) Get(context.Context, string) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(v1alpha1.GPUNodes.GroupResource(), "n")
}
func (s *server) Create(_ context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return s.write(func() { s.object = o.Object })
}
func (s *server) Patch(_ context.Context, _ string, patch []byte, _ bool) (*unstructured.Unstructured, error) {
	var changes map[string]any
	if err := json.Unmarshal(patch, &changes); err != nil {
		return nil, err
	}
	return s.write(func() { merge(s.object, changes) })
}
func (s *server) write(f func()) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	f()
	s.writes++
	s.mu.Unlock()
	out := &unstructured.Unstructured{Object: s.copy()}
	out.SetGeneration(int64(s.writes))
	out.SetResourceVersion(strconv.Itoa(s.writes))
	return out, nil
}
func (s *server) copy() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, _ := json.Marshal(s.object)
	var out map[string]any
	_ = json.Unmarshal(text, &out) // what was marshalled
	return out
}

// merge applies a JSON merge patch.
func merge(object, patch map[string]any) {
	for key, value := range patch {
		inner, is := object[key].(map[string]any)
		change, both := value.(map[string]any)
		switch {
		case value == nil:
			delete(object, key)
		case is && both:
			merge(inner, change)
		default:
			object[key] = value
		}
	}
}

// TestAgentPublishes: an agent that knows everything leaves no field of the GPUNode empty.
func TestAgentPublishes(t *testing.T) {
	var gn v1alpha1.GPUNode
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(published(t, full())[0], &gn); err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	eachField(&gn, false, func(path string, leaf reflect.Value) { set[path] = !leaf.IsZero() })
	for _, path := range paths() {
		switch by := fields[path].writer; {
		case by == agent && !set[path]:
			t.Errorf("%s is not published by internal/agent/publish (describe.go, pace.go)", path)
		case by != agent && set[path]:
			t.Errorf("%s is published by internal/agent/publish; the table says that it is written by %s", path, by)
		}
	}
}

// TestAgentPublishesChanges: what changes in the inventory or in a device's health changes the
// GPUNode at once.
func TestAgentPublishesChanges(t *testing.T) {
	in := full()
	try := func(part func(*inputs) any, name string, except map[string]string) {
		each(reflect.ValueOf(part(in)).Elem(), "", false, func(path string, _ reflect.Value) {
			got := published(t, full(), func(in *inputs) {
				each(reflect.ValueOf(part(in)).Elem(), "", false, func(at string, leaf reflect.Value) {
					if at == path {
						change(leaf)
					}
				})
			})
			switch _, listed := except[path]; {
			case !listed && reflect.DeepEqual(got[0], got[1]):
				t.Errorf("a change of %s.%s is not published by internal/agent/publish (describe.go; healthOf in writer.go): publish it, or list it here", name, path)
			case listed && !reflect.DeepEqual(got[0], got[1]):
				t.Errorf("%s.%s is published by internal/agent/publish, and listed here as not", name, path)
			}
		})
	}
	try(func(in *inputs) any { return &in.inventory }, "device.Inventory", unpublished)
	try(func(in *inputs) any { return &in.health }, "publish.Health", nil)
}
