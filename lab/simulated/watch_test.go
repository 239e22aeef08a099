package simulated

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// holder is a running pod of node h-0 with one container that has the devices.
func holder(name string, devices ...record.Device) *v1.Pod {
	text, err := record.Encode(record.Record{Node: "h-0", Containers: []record.Container{{Name: "main", Resource: "nvidia.com/gpu", Devices: devices}}})
	if err != nil {
		panic(err)
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Annotations: map[string]string{names.AnnotationDevices: text}},
		Spec:       v1.PodSpec{NodeName: "h-0", Containers: []v1.Container{{Name: "main"}}},
		Status:     v1.PodStatus{Phase: v1.PodRunning},
	}
}

func edit(p *v1.Pod, change func(*v1.Pod)) *v1.Pod {
	change(p)
	return p
}

func busy(percent string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations[names.AnnotationSimulatedUtilization] = percent }
}

func TestLoadOfPods(t *testing.T) {
	s := newFleet(t, Options{})
	n := s.nodes["h-0"]
	uuid := n.gpus[0].UUID
	const total = 81920
	tests := []struct {
		name    string
		pods    []*v1.Pod
		want    []Use
		problem string
	}{
		{"none", nil, nil, ""},
		{"two whole devices", []*v1.Pod{edit(holder("p", record.Device{Index: 0, UUID: uuid}, record.Device{Index: 2}), busy("80"))}, []Use{
			{Device: 0, Utilization: 80, MemoryMiB: total * 9 / 10, Start: WholeDevice}, {Device: 2, Utilization: 80, MemoryMiB: total * 9 / 10, Start: WholeDevice},
		}, ""},
		{"a share", []*v1.Pod{edit(holder("p", record.Device{Index: 1, MemoryMiB: 20480, ComputeMilli: 300}), busy("50"))}, []Use{
			{Device: 1, Utilization: 15, MemoryMiB: 20480, Start: WholeDevice},
		}, ""},
		{"a share by memory alone", []*v1.Pod{edit(holder("p", record.Device{Index: 1, MemoryMiB: total / 4}), busy("80"))}, []Use{
			{Device: 1, Utilization: 20, MemoryMiB: total / 4, Start: WholeDevice},
		}, ""},
		{"two turns", []*v1.Pod{edit(holder("p", record.Device{Index: 1, Turn: true}), busy("80")), edit(holder("q", record.Device{Index: 1, Turn: true}), busy("0"))}, []Use{
			{Device: 1, Utilization: 80, MemoryMiB: total * 9 / 20, Start: WholeDevice}, {Device: 1, Utilization: 0, MemoryMiB: total * 9 / 20, Start: WholeDevice},
		}, ""},
		{"a slice", []*v1.Pod{edit(holder("p", record.Device{Index: 3, MIG: "3g.40gb", Start: 4}), busy("70"))}, []Use{
			{Device: 3, Utilization: 30, MemoryMiB: 40448 * 9 / 10, Start: 4},
		}, ""},
		{"pending", []*v1.Pod{edit(holder("p", record.Device{Index: 0}), func(p *v1.Pod) { p.Status.Phase = v1.PodPending })}, nil, ""},
		{"over", []*v1.Pod{edit(holder("p", record.Device{Index: 0}), func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })}, nil, ""},
		{"no record", []*v1.Pod{edit(holder("p", record.Device{Index: 0}), func(p *v1.Pod) { p.Annotations = nil })}, nil, ""},
		{"an init container", []*v1.Pod{edit(holder("p", record.Device{Index: 0}), func(p *v1.Pod) {
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
		})}, nil, ""},
		{"a sidecar", []*v1.Pod{edit(holder("p", record.Device{Index: 0}), func(p *v1.Pod) {
			busy("10")(p)
			always := v1.ContainerRestartPolicyAlways
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
			p.Spec.InitContainers[0].RestartPolicy = &always
		})}, []Use{{Device: 0, Utilization: 10, MemoryMiB: total * 9 / 10, Start: WholeDevice}}, ""},
		{"a record that is none", []*v1.Pod{edit(holder("p", record.Device{Index: 0}), func(p *v1.Pod) {
			p.Annotations[names.AnnotationDevices] = "{"
		})}, nil, "pod default/p: tangram.dev/devices"},
		{"a record of another node", []*v1.Pod{edit(holder("p", record.Device{Index: 0}), func(p *v1.Pod) {
			p.Annotations[names.AnnotationDevices] = strings.Replace(p.Annotations[names.AnnotationDevices], "h-0", "h-1", 1)
		})}, nil, "tangram.dev/devices: node: is h-1, the pod is on h-0"},
		{"a device that is not there", []*v1.Pod{holder("p", record.Device{Index: 4})}, nil, "the node has no device 4"},
		{"a device of another UUID", []*v1.Pod{holder("p", record.Device{Index: 0, UUID: "GPU-other"})}, nil, `the node has no device 0 with UUID "GPU-other"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := n.loadOf(tt.pods)
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("uses %+v\nwant %+v", got, tt.want)
			}
			if text := fmt.Sprint(problems); (tt.problem == "") != (len(problems) == 0) || !strings.Contains(text, tt.problem) {
				t.Errorf("problems %s, want %s", text, tt.problem)
			}
		})
	}
}

func TestBusyness(t *testing.T) {
	seen := map[int]bool{}
	for i := range 500 {
		p := holder(fmt.Sprint(i), record.Device{})
		percent, err := busyness(p)
		if again, _ := busyness(p); err != nil || percent < 60 || percent > 95 || again != percent {
			t.Fatalf("pod %d: %d, then %d, %v", i, percent, again, err)
		}
		seen[percent] = true
	}
	if len(seen) < 30 {
		t.Errorf("500 pods have %d different loads", len(seen))
	}
	for _, text := range []string{"", "x", "-1", "101", "35%", "1e2", "99999999999999999999"} {
		percent, err := busyness(edit(holder("p", record.Device{}), busy(text)))
		if err == nil || !strings.HasPrefix(err.Error(), "tangram.dev/simulated-utilization: must be a whole number from 0 to 100") || percent < 60 {
			t.Errorf("%q: %d, %v", text, percent, err)
		}
	}
}

// fakePods say, as the fake clientset does, that they cannot list by watching.
type fakePods struct{ PodReader }

func (fakePods) IsWatchListSemanticsUnSupported() bool { return true }

// A pod drives its devices from when it runs until it ends, and an annotation of the
// GPUNode breaks them.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFleet(t, Options{})
		n := s.nodes["h-0"]
		client := fake.NewClientset()
		scheme := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		node := &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "GPUNode"},
			ObjectMeta: metav1.ObjectMeta{Name: "h-0", Annotations: map[string]string{names.AnnotationSimulatedFaults: "device=0,gone"}},
		}
		stranger := node.DeepCopy()
		stranger.Name = "stranger"
		gpuNodes := metadatafake.NewSimpleMetadataClient(scheme, node, stranger)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		running, err := PodInformer(fakePods{client.CoreV1().Pods("")})
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- Watch(ctx, running, FaultInformer(gpuNodes), s) }()

		uses := func() []Use {
			synctest.Wait()
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.gpus[1].uses
		}
		whole := func(percent float64) []Use {
			return []Use{{Device: 1, Utilization: percent, MemoryMiB: 73728, Start: WholeDevice}}
		}
		pods := client.CoreV1().Pods("default")
		p := edit(holder("p", record.Device{Index: 1}), busy("35"))
		p.Status.Phase = v1.PodPending
		update := func(change func(*v1.Pod)) {
			t.Helper()
			if _, err := pods.Update(ctx, edit(p, change), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := uses(); len(got) != 0 {
			t.Errorf("pending: %+v", got)
		}
		update(func(p *v1.Pod) { p.Status.Phase = v1.PodRunning })
		if got := uses(); !reflect.DeepEqual(got, whole(35)) {
			t.Errorf("running: %+v", got)
		}
		update(busy("80"))
		if got := uses(); !reflect.DeepEqual(got, whole(80)) {
			t.Errorf("busier: %+v", got)
		}
		if err := pods.Delete(ctx, "p", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := uses(); len(got) != 0 {
			t.Errorf("deleted: %+v", got)
		}

		gone := func() (list []bool) {
			synctest.Wait()
			for _, s := range sampleOf(t, s.Backend("h-0")) {
				list = append(list, s.Err != nil)
			}
			return list
		}
		for _, step := range []struct {
			text string
			want []bool
		}{
			{"device=0,gone", []bool{true, false, false, false}},
			{"device=0,gone;device=2,gone", []bool{true, false, true, false}},
			{"device=0,nonsense", []bool{true, false, true, false}}, // a wrong one changes nothing
			{"device=9,gone", []bool{true, false, true, false}},
			{"", []bool{false, false, false, false}},
		} {
			node = node.DeepCopy()
			node.Annotations[names.AnnotationSimulatedFaults] = step.text
			writer := gpuNodes.Resource(v1alpha1.GPUNodes).(metadatafake.MetadataClient)
			if _, err := writer.UpdateFake(node, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := gone(); !reflect.DeepEqual(got, step.want) {
				t.Errorf("%q: gone %v, want %v", step.text, got, step.want)
			}
		}
		setFaults(t, s, "h-0", "device=3,gone")
		if err := gpuNodes.Resource(v1alpha1.GPUNodes).Delete(ctx, "h-0", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := gone(); got[3] {
			t.Error("a GPUNode that is deleted keeps its faults")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Watch = %v", err)
		}
	})
}

func TestTrimKeepsTheLoad(t *testing.T) {
	s := newFleet(t, Options{})
	n := s.nodes["h-0"]
	for _, p := range []*v1.Pod{
		edit(holder("p", record.Device{Index: 1}), busy("35")), holder("q", record.Device{Index: 0}),
		edit(holder("r", record.Device{Index: 0}), func(p *v1.Pod) { p.Spec.InitContainers = p.Spec.Containers }),
	} {
		want, _ := n.loadOf([]*v1.Pod{p})
		if got, _ := n.loadOf([]*v1.Pod{trim(p)}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", p.Name, got, want)
		}
	}
}

// BenchmarkFleet is one round of samples of 1,000 nodes with 8 GPUs, which an agent does
// every 10 s.
func BenchmarkFleet(b *testing.B) {
	c := newClock()
	s, err := New(parseText(b, "pools:\n- name: h\n  count: 1000\n  gpu: {model: H100-80GB, count: 8, mig: true}\n"), options(c))
	if err != nil {
		b.Fatal(err)
	}
	var backends []device.Backend
	for _, name := range s.Nodes() {
		s.nodes[name].setLoad([]Use{{Device: 0, Utilization: 80, MemoryMiB: 1000, Start: WholeDevice}, {Device: 5, Utilization: 50, Start: WholeDevice}})
		backends = append(backends, s.Backend(name))
	}
	b.ReportAllocs()
	for b.Loop() {
		c.seconds(10)
		for _, backend := range backends {
			if samples, err := backend.Sample(context.Background()); err != nil || len(samples) != 8 {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkPods is how long one change of a pod keeps the watcher, on a node with 16.
func BenchmarkPods(b *testing.B) {
	s := newFleet(b, Options{})
	n := s.nodes["h-0"]
	var pods []*v1.Pod
	for i := range 16 {
		pods = append(pods, holder(fmt.Sprint(i), record.Device{Index: i % 4, MemoryMiB: 1000, ComputeMilli: 100}))
	}
	b.ReportAllocs()
	for b.Loop() {
		uses, _ := n.loadOf(pods)
		n.setLoad(uses)
	}
}
