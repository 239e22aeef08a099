package controller

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/measure"
)

// finishedPod is a pod of a queue that asks for GPUs and is bound.
func finishedPod(queue string, gpus int64, phase v1.PodPhase, conditions ...v1.PodCondition) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID(queue), Annotations: map[string]string{names.AnnotationCharged: queue}},
		Spec: v1.PodSpec{NodeName: "n", Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(gpus, resource.DecimalSI)}}}}},
		Status: v1.PodStatus{Phase: phase, Conditions: conditions},
	}
}

func TestFinished(t *testing.T) {
	queues := cache.NewStore(func(obj any) (string, error) { return obj.(string), nil })
	f := &finished{
		desc:   prometheus.NewDesc(PodsFinished.Name, PodsFinished.Help, PodsFinished.LabelNames(), nil),
		queues: queues, names: measure.NewNames(maxFinishedQueues), counts: map[finishedKey]float64{},
	}
	for _, q := range []string{"research", "prod"} {
		if err := queues.Add(q); err != nil {
			t.Fatal(err)
		}
	}
	disrupted := v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}
	f.count(finishedPod("research", 1, v1.PodSucceeded))
	f.count(finishedPod("research", 1, v1.PodSucceeded, disrupted)) // it was done before it had to go
	f.count(finishedPod("research", 1, v1.PodFailed))
	f.count(finishedPod("prod", 1, v1.PodFailed, disrupted))
	f.count(finishedPod("prod", 1, v1.PodRunning))
	f.count(finishedPod("", 1, v1.PodSucceeded))
	f.count(finishedPod("prod", 0, v1.PodSucceeded)) // no GPU
	waiting := finishedPod("prod", 1, v1.PodPending)
	waiting.Spec.NodeName = ""
	f.count(waiting)
	for i := range 100_000 { // hostile names
		f.count(finishedPod(fmt.Sprint("made-up-", i), 1, v1.PodFailed))
	}
	read := func() map[string]float64 {
		metrics := make(chan prometheus.Metric, 10_000)
		f.Collect(metrics)
		close(metrics)
		out := map[string]float64{}
		for m := range metrics {
			var d dto.Metric
			if err := m.Write(&d); err != nil {
				t.Fatal(err)
			}
			out[d.Label[0].GetValue()+" "+d.Label[1].GetValue()] = d.Counter.GetValue()
		}
		return out
	}
	want := map[string]float64{"research succeeded": 2, "research failed": 1, "prod evicted": 1, "prod deleted": 1, "default succeeded": 1, "other failed": 100_000}
	if got := read(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if err := queues.Delete("prod"); err != nil {
		t.Fatal(err)
	}
	if got := read(); got["prod evicted"] != 0 || got["research failed"] != 1 {
		t.Errorf("after prod is gone: %v", got)
	}
}
