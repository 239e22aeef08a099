package workload

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// TestOrderWithinASecond: the API server writes creation times in seconds. Pods that
// were created within one second go in the order in which they were seen, not in that of
// their random UIDs; a pod of an earlier second goes before all of them.
func TestOrderWithinASecond(t *testing.T) {
	w := newGangs()
	second := time.Unix(1_700_000_000, 0)
	submitted := func(uid string, created time.Time) int64 {
		w.Set(onePod(uid, created), second)
		gang, there := w.Describe(engine.ID("pod/"+uid), second, func(model.HolderID) bool { return false })
		if !there {
			t.Fatalf("pod %s is not known", uid)
		}
		return gang.Submitted
	}
	first, next, older := submitted("z", second), submitted("a", second), submitted("m", second.Add(-time.Second))
	if first >= next {
		t.Errorf("the first of two pods of one second came at %d, the next at %d", first, next)
	}
	if older >= first {
		t.Errorf("a pod of the second before came at %d, not before %d", older, first)
	}
}

// TestShortRuns: a pod that ended within seconds says nothing about how long the next one
// will run; one that ran for a while does.
func TestShortRuns(t *testing.T) {
	for _, tt := range []struct{ ran, want time.Duration }{{time.Second, 0}, {time.Hour, time.Hour}} {
		w, start := newGangs(), time.Unix(1_700_000_000, 0)
		pod := onePod("first", start)
		pod.Spec.NodeName = "n-0"
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)}}
		w.Set(pod, start)
		w.Forget(pod, start.Add(tt.ran))
		w.Set(onePod("next", start.Add(tt.ran)), start.Add(tt.ran))
		gang, _ := w.Describe("pod/next", start.Add(tt.ran), func(model.HolderID) bool { return false })
		if gang.Runtime != tt.want {
			t.Errorf("after a run of %v the next is expected to take %v, want %v", tt.ran, gang.Runtime, tt.want)
		}
	}
}

func newGangs() *Gangs {
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	reader := &Reader{Namespaces: corelisters.NewNamespaceLister(none), Levels: topology.DefaultLevels}
	reader.Own("gpu-scheduler", Profile{})
	return New(reader, corelisters.NewPodLister(none), Objects{})
}

// onePod asks for one GPU.
func onePod(uid string, created time.Time) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: uid, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(created)},
		Spec: v1.PodSpec{SchedulerName: "gpu-scheduler", Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
		}}}},
	}
}
