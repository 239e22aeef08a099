package property

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// counted are resources that nodes may publish and pods may request, with amounts that
// sometimes meet a node's limit exactly. Memory is in bytes that are not a whole MiB.
var counted = map[v1.ResourceName][]string{
	v1.ResourceCPU:              {"0", "100m", "1", "1500m"},
	v1.ResourceMemory:           {"0", "1000", "1Mi", "1500k", "2Mi"},
	v1.ResourceEphemeralStorage: {"0", "1", "1Gi"},
	"hugepages-2Mi":             {"0", "2Mi", "4Mi"},
	"attachable-volumes-csi-x":  {"1"},
	"nvidia.com/gpu":            {"0", "1", "2"},
	"nvidia.com/gpumem":         {"100"}, // Tangram counts it; kube-scheduler is configured to ignore it
	"nvidia.com/mig-1g.5gb":     {"1"},
	"rdma/hca":                  {"1", "2"},
	"example.kubernetes.io/foo": {"1"},
	"volumes":                   {"1"}, // no name that kube-scheduler compares
}

func drawCounted(t *rapid.T, what string, times int64, names ...v1.ResourceName) v1.ResourceList {
	list := v1.ResourceList{}
	if len(names) == 0 {
		for name := range counted {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	for _, name := range names {
		// A node has most of them, a pod asks for few.
		if has := rapid.IntRange(0, 5).Draw(t, what+" has "+string(name)); what == "node" && has == 5 || what != "node" && has > 0 {
			continue
		}
		q := resource.MustParse(rapid.SampledFrom(counted[name]).Draw(t, what+" "+string(name)))
		list[name] = *resource.NewMilliQuantity(q.MilliValue()*times, q.Format)
	}
	return list
}

func drawCountedPod(t *rapid.T, name, node string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{NodeName: node}}
	resized := node != "" && rapid.IntRange(0, 4).Draw(t, "resized") == 0
	container := func(name string) v1.Container {
		c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: drawCounted(t, name, 1)}}
		if resized {
			status := v1.ContainerStatus{Name: name, AllocatedResources: drawCounted(t, name+" allocated", 1, v1.ResourceCPU, v1.ResourceMemory)}
			status.Resources = &v1.ResourceRequirements{Requests: drawCounted(t, name+" actuated", 1, v1.ResourceCPU, v1.ResourceMemory)}
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, status)
		}
		return c
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "init containers") {
		c := container(fmt.Sprint("init", i))
		if rapid.Bool().Draw(t, "sidecar") {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "containers") {
		p.Spec.Containers = append(p.Spec.Containers, container(fmt.Sprint("main", i)))
	}
	if rapid.IntRange(0, 3).Draw(t, "overhead") == 0 {
		p.Spec.Overhead = drawCounted(t, "overhead", 1, v1.ResourceCPU, v1.ResourceMemory)
	}
	if rapid.IntRange(0, 3).Draw(t, "pod level") == 0 {
		p.Spec.Resources = &v1.ResourceRequirements{Requests: drawCounted(t, "pod", 2, v1.ResourceCPU, v1.ResourceMemory, "hugepages-2Mi")}
	}
	return p
}

// resourceFit is kube-scheduler's plugin as Tangram's profiles configure it.
func resourceFit(t *testing.T) *noderesources.Fit {
	t.Helper()
	fit, err := noderesources.NewFit(t.Context(), &config.NodeResourcesFitArgs{
		IgnoredResources: dialect.Unpublished(),
		ScoringStrategy:  &config.ScoringStrategy{Type: config.LeastAllocated, Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}}},
	}, nil, feature.Features{EnablePodLevelResources: true, EnableInPlacePodVerticalScaling: true, EnableSidecarContainers: true, EnableInPlacePodLevelResourcesVerticalScaling: true})
	if err != nil {
		t.Fatal(err)
	}
	return fit.(*noderesources.Fit)
}

// TestCoversAsNodeResourcesFitDoes: for any node, any pods on it and any further pod,
// the ledger's answer and what it finds short are those of kube-scheduler's own plugin.
func TestCoversAsNodeResourcesFitDoes(t *testing.T) {
	fit := resourceFit(t)
	fitted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: drawCounted(t, "node", 4)}}
		if rapid.IntRange(0, 9).Draw(t, "counts pods") > 0 {
			node.Status.Allocatable[v1.ResourcePods] = *resource.NewQuantity(int64(rapid.IntRange(0, 5).Draw(t, "pods")), resource.DecimalSI)
		}
		info := framework.NewNodeInfo()
		info.SetNode(node)
		l := ledger.New()
		inv, _ := dialect.Inventory(node, nil)
		if err := l.SetNode(inv); err != nil {
			t.Fatal(err)
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "running") {
			pod := drawCountedPod(t, fmt.Sprint("running", i), "n")
			claims, _ := dialect.Claims(pod)
			for _, c := range claims {
				l.Put("n", c)
			}
			podInfo, err := framework.NewPodInfo(pod)
			if err != nil {
				t.Fatal(err)
			}
			info.AddPodInfo(podInfo)
		}
		pod := drawCountedPod(t, "new", "")
		cs := framework.NewCycleState()
		if _, status := fit.PreFilter(context.Background(), cs, pod, nil); !status.IsSuccess() && !status.IsSkip() {
			t.Fatal(status)
		}
		status := fit.Filter(context.Background(), cs, pod, info)
		r := dialect.HostRequest(pod)
		if full, err := dialect.Request(pod); err == nil && full != nil && (full.Host != r.Host || !full.Extras.Equal(r.Extras)) {
			t.Fatalf("with devices %v %v, without %v %v", full.Host, full.Extras, r.Host, r.Extras)
		}
		v, _ := l.View("n")
		if v.Covers(r) != status.IsSuccess() {
			t.Fatalf("covers: %v, kube-scheduler: %v; %+v of %+v", v.Covers(r), status, shortNames(v, r), inv.Extras)
		}
		if got, want := shortNames(v, r), insufficient(status); !slices.Equal(got, want) {
			t.Fatalf("short of %v, kube-scheduler: %v", got, want)
		}
		if status.IsSuccess() {
			fitted++
		} else {
			refused++
		}
	})
	t.Logf("%d pods fitted, %d were refused", fitted, refused)
	if fitted == 0 || refused == 0 {
		t.Errorf("%d pods fitted, %d were refused: the test says nothing", fitted, refused)
	}
}

func shortNames(v ledger.View, r *model.Request) []string {
	var out []string
	for s := range v.Shortages(r) {
		out = append(out, s.Name)
	}
	slices.Sort(out)
	return out
}

// insufficient are the resources that NodeResourcesFit names.
func insufficient(status *fwk.Status) []string {
	if status == nil {
		return nil
	}
	var out []string
	for _, reason := range status.Reasons() {
		if reason == "Too many pods" {
			reason = "Insufficient pods"
		}
		out = append(out, strings.TrimPrefix(reason, "Insufficient "))
	}
	slices.Sort(out)
	return out
}
