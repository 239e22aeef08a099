package dialect

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkRequest reads what a plain pod asks for: done for every event of every pod.
func BenchmarkRequest(b *testing.B) {
	list := v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"), "nvidia.com/gpu": resource.MustParse("1")}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if r, err := Request(pod); err != nil || r == nil {
			b.Fatal(r, err)
		}
	}
}
