package records

import (
	"testing"

	"github.com/tangram-dev/tangram/internal/dialect"
)

// untold are resources whose device plugins spell device IDs in a way that is not known.
var untold = map[string]string{
	"nvidia.com/vgpu":                "of a hypervisor's manager: its IDs name no card",
	"volcano.sh/vgpu-memory":         "units beside volcano.sh/vgpu-number, whose IDs are read",
	"volcano.sh/vgpu-cores":          "units beside volcano.sh/vgpu-number, whose IDs are read",
	"aliyun.com/gpu-core.percentage": "units beside aliyun.com/gpu-mem, whose IDs are read",
	"huawei.com/npu-core":            "units of compute: its IDs are not documented",
}

// TestEveryResource: of every resource by which pods ask for devices, and that a device
// plugin publishes, there is a form of its device IDs. Else the agent would not see which
// devices its containers have.
func TestEveryResource(t *testing.T) {
	for _, w := range dialect.DeviceResources() {
		if w.Source == dialect.Plugin && untold[w.Name] == "" && !readable(w.Name) {
			t.Errorf("forms.go: no form of the device IDs of %s, a resource of internal/dialect: add one, or say in untold why there is none", w.Name)
		}
	}
}
