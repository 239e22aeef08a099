package plugin

import (
	"fmt"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tangram-dev/tangram/api/names"
)

// TestClaimsPlugin: in a process with Tangram's plugins every profile has GPUClaims in the
// place of DynamicResources, unless it says otherwise.
func TestClaimsPlugin(t *testing.T) {
	plugins := func(list ...string) (out []config.Plugin) {
		for _, name := range list {
			out = append(out, config.Plugin{Name: name})
		}
		return out
	}
	profiles := []config.KubeSchedulerProfile{
		{SchedulerName: "ours", Plugins: &config.Plugins{Filter: config.PluginSet{Enabled: plugins(names.PluginFilter)}}},
		{SchedulerName: "plain"},
		{SchedulerName: "listed", Plugins: &config.Plugins{MultiPoint: config.PluginSet{Enabled: plugins(stockClaims)}}},
		{SchedulerName: "stock", Plugins: &config.Plugins{MultiPoint: config.PluginSet{Disabled: plugins(names.PluginClaims)}}},
	}
	CompleteAll(profiles)
	for _, p := range profiles {
		has := func(list []config.Plugin, name string) int {
			n := 0
			for _, x := range list {
				if x.Name == name {
					n++
				}
			}
			return n
		}
		multi := p.Plugins.MultiPoint
		want := 1
		if p.SchedulerName == "stock" {
			want = 0
		}
		if has(multi.Enabled, names.PluginClaims) != want || has(multi.Disabled, stockClaims) != want || want == 1 && has(multi.Enabled, stockClaims) != 0 {
			t.Errorf("%s: enabled %v, disabled %v", p.SchedulerName, multi.Enabled, multi.Disabled)
		}
	}
}

// TestNarrow: the allocator sees of the planned node what was planned and what is allocated,
// of other drivers everything, and of other nodes nothing.
func TestNarrow(t *testing.T) {
	slice := func(driver, node string) *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver + node}, Spec: resourceapi.ResourceSliceSpec{Driver: driver, Pool: resourceapi.ResourcePool{Name: node}}}
		if node != "" {
			s.Spec.NodeName = &node
		}
		for i := range 4 {
			s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprint(i)})
		}
		return s
	}
	all := []*resourceapi.ResourceSlice{slice("gpu.nvidia.com", "a"), slice("gpu.nvidia.com", "b"), slice("nic", "a"), slice("nic", "")}
	seen := func(s *steering) (out []string) {
		for _, x := range s.narrow(all) {
			for _, d := range x.Spec.Devices {
				out = append(out, x.Name+d.Name)
			}
		}
		return out
	}
	id := func(name string) structured.DeviceID { return structured.MakeDeviceID("gpu.nvidia.com", "a", name) }
	others := []string{"nica0", "nica1", "nica2", "nica3", "nic0", "nic1", "nic2", "nic3"}
	got := seen(&steering{node: "a", only: sets.New(id("1")), allocated: sets.New(id("3"))})
	if want := append([]string{"gpu.nvidia.coma1", "gpu.nvidia.coma3"}, others...); !slices.Equal(got, want) {
		t.Errorf("planned: %v", got)
	}
	if got := seen(&steering{node: "a"}); len(got) != 12 {
		t.Errorf("loose: %v", got)
	}
	if got := seen(&steering{}); len(got) != 16 || len(all[0].Spec.Devices) != 4 {
		t.Errorf("not placed by the engine: %v", got)
	}
}
