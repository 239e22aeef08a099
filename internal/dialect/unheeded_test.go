package dialect

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestUnheeded: words without effect are named, and words in the wrong place with the right
// one. Words that count, and those of others, are not.
func TestUnheeded(t *testing.T) {
	const asResource = ": has no effect here: it is a resource, to be written under resources.limits of a container"
	for _, tt := range []struct {
		name                  string
		annotations, labels   []string
		resources, initialize []v1.ResourceName
		want                  string
	}{
		{name: "none", annotations: []string{"example.com/team", "volcano.sh/vgpu-mode"}, labels: []string{"app", "nvidia.com/gpu.product"}, resources: []v1.ResourceName{"cpu", "nvidia.com/gpu", "volcano.sh/vgpu-number", "example.com/fpga"}},
		{name: "label", labels: []string{"kai.scheduler/task-priority"}, want: "metadata.labels[kai.scheduler/task-priority]: has no effect here"},
		{name: "annotation", annotations: []string{"kai.scheduler/staleness-grace-period"}, want: "metadata.annotations[kai.scheduler/staleness-grace-period]: has no effect here"},
		{name: "resource", resources: []v1.ResourceName{"nvidia.com/priority"}, want: "spec.containers[0].resources.limits[nvidia.com/priority]: has no effect here"},
		// Document 004, section 10, lists these among annotations.
		{name: "resources as annotations", annotations: []string{"volcano.sh/gpu-memory", "volcano.sh/vgpu-number"},
			want: "metadata.annotations[volcano.sh/gpu-memory]" + asResource + "; metadata.annotations[volcano.sh/vgpu-number]" + asResource},
		{name: "a slice as annotation", annotations: []string{"nvidia.com/mig-1g.10gb"}, want: "metadata.annotations[nvidia.com/mig-1g.10gb]" + asResource},
		{name: "written by the scheduler as annotation", annotations: []string{"huawei.com/Ascend910", "huawei.com/npu-core"}},
		{name: "annotations as resources", resources: []v1.ResourceName{"volcano.sh/gpu-index"}, initialize: []v1.ResourceName{"nvidia.com/use-gputype"},
			want: "spec.initContainers[0].resources.limits[nvidia.com/use-gputype]: is no resource: it is an annotation, to be written under metadata.annotations; " +
				"spec.containers[0].resources.limits[volcano.sh/gpu-index]: is no resource: it is an annotation, to be written under metadata.annotations"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{
				Containers:     []v1.Container{{Resources: v1.ResourceRequirements{Limits: v1.ResourceList{}}}},
				InitContainers: []v1.Container{{Resources: v1.ResourceRequirements{Limits: v1.ResourceList{}}}},
			}}
			pod.Annotations, pod.Labels = map[string]string{}, map[string]string{}
			for _, key := range tt.annotations {
				pod.Annotations[key] = "1"
			}
			for _, key := range tt.labels {
				pod.Labels[key] = "1"
			}
			for _, name := range tt.resources {
				pod.Spec.Containers[0].Resources.Limits[name] = resource.MustParse("1")
			}
			for _, name := range tt.initialize {
				pod.Spec.InitContainers[0].Resources.Limits[name] = resource.MustParse("1")
			}
			got := ""
			if err := Unheeded(pod); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	pod := &v1.Pod{}
	pod.Annotations = map[string]string{}
	for i := range 1000 {
		pod.Annotations[fmt.Sprintf("nvidia.com/mig-%dg.10gb", i)] = "1"
	}
	if err := Unheeded(pod); err == nil || !strings.HasSuffix(err.Error(), "; and 992 more") || len(err.Error()) > 2000 {
		t.Errorf("of a thousand: %v", err)
	}
}
