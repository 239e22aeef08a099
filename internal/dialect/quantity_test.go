package dialect

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/names"
)

// TestHugeExponents: text of tenants and administrators that Kubernetes' parser would take
// minutes for is refused at once.
func TestHugeExponents(t *testing.T) {
	const bad = "1e-999999999"
	began := time.Now()
	if _, err := QuotaOf(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationQuota: "nvidia.com/gpu=" + bad}}}); err == nil {
		t.Error("a quota is accepted")
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kaiFraction: bad}}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	if _, err := Request(p); err == nil {
		t.Error("a fraction is accepted")
	}
	q := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "q"}, "spec": map[string]any{"capability": map[string]any{"cpu": bad}}}}
	if _, err := QueueOf(q); err == nil {
		t.Error("a queue is accepted")
	}
	if _, err := Inventory(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{names.LabelGPUMemory: bad}}}, nil); err != nil {
		t.Log(err)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %s", d)
	}
	for _, good := range []string{"1", "100m", "1e3", "1E3", "32Gi", "1.5", "2e-3"} {
		if _, err := ParseQuantity(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}
