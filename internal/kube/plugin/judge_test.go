package plugin

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

// TestGonePodsAreNotCounted: kube-scheduler's cache has not heard yet that the pod which held
// a node's GPUs is gone. The pod that was planned there goes there, at once, also when scores
// decide. What else the filters say still counts, and host ports of both are waited for.
func TestGonePodsAreNotCounted(t *testing.T) {
	plugins := "{multiPoint: {enabled: [{name: GPUQueue}, {name: GPUFilter}, {name: GPUScore}, {name: GPUReserve}, {name: GPUGang}, {name: GPUBind}]}}"
	port := func(p *v1.Pod, n int32) {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, v1.ContainerPort{ContainerPort: n, HostPort: n})
	}
	for _, tt := range []struct {
		name    string
		change  func(pod, neighbour *v1.Pod)
		refused bool
	}{
		{"plain", func(*v1.Pod, *v1.Pod) {}, false},
		{"by scores", func(p, _ *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{
				{Weight: 1, Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "fast", Operator: v1.NodeSelectorOpExists}}}},
			}}}
		}, false},
		{"a port that another has than the gone pod", func(p, n *v1.Pod) { port(n, 81) }, false},
		{"a port that the gone pod had", func(p, _ *v1.Pod) { port(p, 80) }, true},
		{"a port that its neighbour has", func(p, n *v1.Pod) { port(p, 81); port(n, 81) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := load(t, "profiles:\n- schedulerName: s\n  plugins: "+plugins+"\n")
			ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), klog.Logger{}), time.Minute)
			defer cancel()
			node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
				names.ResourceNVIDIA: resource.MustParse("2"), v1.ResourcePods: resource.MustParse("10"),
			}}}
			pod, gone, neighbour := gpuPod("p", 2), gpuPod("gone", 2), cpuPod("neighbour")
			for _, p := range []*v1.Pod{pod, gone, neighbour} {
				p.Spec.SchedulerName, p.UID = "s", types.UID(p.Name)
			}
			gone.Spec.NodeName, neighbour.Spec.NodeName = "n", "n"
			port(gone, 80)
			tt.change(pod, neighbour)
			client := fake.NewClientset(node, pod, neighbour)
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
			factory.StartWithContext(ctx)
			factory.WaitForCacheSyncWithContext(ctx)
			if err := sched.WaitForHandlersSync(ctx); err != nil {
				t.Fatal(err)
			}
			s.awaitSync(ctx)
			s.engine.Step()
			if err := sched.Cache.AddPod(klog.FromContext(ctx), gone); err != nil {
				t.Fatal(err)
			}
			if err := sched.Cache.UpdateSnapshot(klog.FromContext(ctx), sched.Profiles["s"].SnapshotSharedLister().(*cache.Snapshot)); err != nil {
				t.Fatal(err)
			}
			info, err := framework.NewPodInfo(pod)
			if err != nil {
				t.Fatal(err)
			}
			got, err := sched.SchedulePod(ctx, sched.Profiles["s"], framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
			if tt.refused != (err != nil) || err == nil && got.SuggestedHost != "n" {
				t.Errorf("got %+v, %v", got, err)
			}
			if s.engine.Gate().Released(pod) == tt.refused {
				t.Errorf("has its release: %v", !tt.refused)
			}
		})
	}
}
