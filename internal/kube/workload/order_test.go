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
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	reader := &Reader{Namespaces: corelisters.NewNamespaceLister(none), Levels: topology.DefaultLevels}
	reader.Own("gpu-scheduler", Profile{})
	w := New(reader, corelisters.NewPodLister(none), Objects{})
	second := time.Unix(1_700_000_000, 0)
	submitted := func(uid string, created time.Time) int64 {
		w.Set(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: uid, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(created)},
			Spec: v1.PodSpec{SchedulerName: "gpu-scheduler", Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
				Limits: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
			}}}},
		}, second)
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
