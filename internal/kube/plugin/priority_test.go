package plugin

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

// TestGPUPriority runs seed 002's configuration on the real scheduler: alone, and in
// a profile with all of Tangram, whose plan would not ask it.
func TestGPUPriority(t *testing.T) {
	gpus := func(amount int64) v1.ResourceList {
		return v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("8"), v1.ResourceMemory: resource.MustParse("64Gi"), v1.ResourcePods: resource.MustParse("10"),
			names.ResourceNVIDIA: *resource.NewQuantity(amount, resource.DecimalSI),
		}
	}
	var objects []runtime.Object
	for name, amount := range map[string]int64{"few": 1, "many": 512, "some": 4} {
		objects = append(objects, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Capacity: gpus(amount), Allocatable: gpus(amount)}})
	}
	tests := []struct {
		name, plugins string
		planned       bool
	}{
		{"alone, as the seed has it", "{score: {enabled: [{name: GPUPriority, weight: 100}]}}", false},
		{"alone at all points", "{multiPoint: {enabled: [{name: GPUPriority, weight: 100}]}}", false},
		{"beside Tangram's", "{filter: {enabled: [{name: GPUFilter}]}, score: {enabled: [{name: GPUScore, weight: 1}, {name: GPUPriority, weight: 100}]}}", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := load(t, "profiles:\n- schedulerName: s\n  percentageOfNodesToScore: 100\n  plugins: "+tt.plugins+"\n")
			ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), klog.Logger{}), 20*time.Second)
			defer cancel()
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u"}, Spec: v1.PodSpec{SchedulerName: "s", Containers: []v1.Container{{
				Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{names.ResourceNVIDIA: resource.MustParse("1")}},
			}}}}
			client := fake.NewClientset(append([]runtime.Object{pod}, objects...)...)
			factory := scheduler.NewInformerFactory(client, 0)
			source := cachetesting.NewFakeControllerSource()
			defer source.Shutdown()
			s := NewShared(watch.Sources{GPUNodes: source})
			sched, err := scheduler.New(ctx, client, factory, nil, func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
				scheduler.WithProfiles(cfg.Profiles...), scheduler.WithFrameworkOutOfTreeRegistry(s.Registry()))
			if err != nil {
				t.Fatal(err)
			}
			s.ScheduleByPlan(sched)
			if p := s.profiles["s"]; p == nil || !p.priority || p.filters != tt.planned {
				t.Errorf("the profile is %+v", p)
			}
			factory.StartWithContext(ctx)
			factory.WaitForCacheSyncWithContext(ctx)
			if err := sched.WaitForHandlersSync(ctx); err != nil {
				t.Fatal(err)
			}
			if s.engine != nil {
				s.awaitSync(ctx)
				s.engine.Step()
			}
			for sched.Cache.NodeCount() < 3 {
				time.Sleep(time.Millisecond)
			}
			if err := sched.Cache.UpdateSnapshot(klog.FromContext(ctx), sched.Profiles["s"].SnapshotSharedLister().(*cache.Snapshot)); err != nil {
				t.Fatal(err)
			}
			info, err := framework.NewPodInfo(pod)
			if err != nil {
				t.Fatal(err)
			}
			got, err := sched.SchedulePod(ctx, sched.Profiles["s"], framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
			if err != nil || got.SuggestedHost != "many" || got.EvaluatedNodes != 3 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// TestGPUPriorityScale: parts of the largest node, also when it has more GPUs than the
// scale has points; pods without GPUs are nobody's business.
func TestGPUPriorityScale(t *testing.T) {
	p := &priority{}
	scores := fwk.NodeScoreList{{Name: "a", Score: 512}, {Name: "b", Score: 128}, {Name: "c"}}
	if s := p.NormalizeScore(context.Background(), nil, nil, scores); !s.IsSuccess() || fmt.Sprint(scores) != "[{a 100} {b 25} {c 0}]" {
		t.Errorf("got %v, %v", scores, s)
	}
	none := fwk.NodeScoreList{{Name: "a"}}
	if s := p.NormalizeScore(context.Background(), nil, nil, none); !s.IsSuccess() || none[0].Score != 0 {
		t.Errorf("got %v, %v", none, s)
	}
	if s := p.PreScore(context.Background(), framework.NewCycleState(), &v1.Pod{}, nil); !s.IsSkip() {
		t.Errorf("got %v", s)
	}
}
