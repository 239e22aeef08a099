package bench

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
)

// boundPod is a pod on a node that holds devices by index; with none, it has no
// record.
func boundPod(t *testing.T, name, node string, devices ...int) corev1.Pod {
	t.Helper()
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	if len(devices) == 0 {
		return pod
	}
	c := record.Container{Name: "main", Resource: names.ResourceNVIDIA}
	for _, i := range devices {
		c.Devices = append(c.Devices, record.Device{Index: i})
	}
	text, err := record.Encode(record.Record{Node: node, Containers: []record.Container{c}})
	if err != nil {
		t.Fatal(err)
	}
	pod.Annotations = map[string]string{names.AnnotationDevices: text}
	return pod
}

func withUUID(t *testing.T, pod corev1.Pod, uuid string) corev1.Pod {
	t.Helper()
	r, err := record.Decode(pod.Annotations[names.AnnotationDevices])
	if err != nil {
		t.Fatal(err)
	}
	r.Containers[0].Devices[0].UUID = uuid
	if pod.Annotations[names.AnnotationDevices], err = record.Encode(r); err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestCheckResult(t *testing.T) {
	stuck := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	stuck.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Message: "no GPU"}}
	elsewhere := boundPod(t, "b", "n2", 0)
	elsewhere.Spec.NodeName = "n1"
	garbled := boundPod(t, "b", "n2", 0)
	garbled.Annotations[names.AnnotationDevices] = "{}"

	for _, tc := range []struct {
		name    string
		pods    []corev1.Pod
		records bool
		nodes   int
		want    []string
	}{
		{
			name: "good", records: true, nodes: 2,
			pods: []corev1.Pod{boundPod(t, "a", "n1", 0), boundPod(t, "b", "n2", 0)},
		},
		{
			name: "same node, other devices", records: true, nodes: 1,
			pods: []corev1.Pod{boundPod(t, "a", "n1", 1), boundPod(t, "b", "n1", 0)},
		},
		{
			name: "no records wanted", nodes: 1,
			pods: []corev1.Pod{boundPod(t, "a", "n1"), boundPod(t, "b", "n1")},
		},
		{
			name: "pods outside the expectation", nodes: 1,
			pods: []corev1.Pod{boundPod(t, "a", "n1"), boundPod(t, "b", "n1"), boundPod(t, "warm", "n1")},
		},
		{
			name: "missing pod", nodes: 1,
			pods: []corev1.Pod{boundPod(t, "a", "n1")},
			want: []string{"pod b does not exist"},
		},
		{
			name: "unbound pod", nodes: 1,
			pods: []corev1.Pod{boundPod(t, "a", "n1"), stuck},
			want: []string{"pod b is not bound: no GPU"},
		},
		{
			name: "over-full node", nodes: 1,
			pods: []corev1.Pod{boundPod(t, "a", "n3"), boundPod(t, "b", "n3")},
			want: []string{"node n3 has 1 GPUs and 2 are taken"},
		},
		{
			name: "unknown node", nodes: 2,
			pods: []corev1.Pod{boundPod(t, "a", "n1"), boundPod(t, "b", "n9")},
			want: []string{"node n9 is not one of the fleet"},
		},
		{
			name: "device held twice", records: true, nodes: 1,
			pods: []corev1.Pod{boundPod(t, "a", "n1", 0), boundPod(t, "b", "n1", 0)},
			want: []string{"device 0 of node n1 is held by pod a and by pod b"},
		},
		{
			name: "UUID held twice", records: true, nodes: 2,
			pods: []corev1.Pod{
				withUUID(t, boundPod(t, "a", "n1", 0), "GPU-1"),
				withUUID(t, boundPod(t, "b", "n2", 1), "GPU-1"),
			},
			want: []string{"device GPU-1 is held by pod a and by pod b"},
		},
		{
			name: "no record", records: true, nodes: 2,
			pods: []corev1.Pod{boundPod(t, "a", "n1", 0), boundPod(t, "b", "n2")},
			want: []string{"pod b has no annotation tangram.dev/devices"},
		},
		{
			name: "garbled record", records: true, nodes: 2,
			pods: []corev1.Pod{boundPod(t, "a", "n1", 0), garbled},
			want: []string{"pod b: annotation tangram.dev/devices: "},
		},
		{
			name: "record of another node", records: true, nodes: 1,
			pods: []corev1.Pod{boundPod(t, "a", "n1", 0), elsewhere},
			want: []string{"pod b is on node n1 and its record on n2"},
		},
		{
			name: "too many devices", records: true, nodes: 2,
			pods: []corev1.Pod{boundPod(t, "a", "n1", 0, 1), boundPod(t, "b", "n2", 0)},
			want: []string{"pod a asked for 1 GPUs and its record has 2"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			nodes, problems := checkResult(expectation{
				pods: []string{"b", "a"}, gpusPerPod: 1, records: tc.records,
				capacity: map[string]int{"n1": 2, "n2": 2, "n3": 1},
			}, tc.pods)
			if nodes != tc.nodes {
				t.Errorf("%d nodes used, want %d", nodes, tc.nodes)
			}
			if !slices.EqualFunc(problems, tc.want, strings.HasPrefix) {
				t.Errorf("problems %q, want %q", problems, tc.want)
			}
		})
	}
}

func TestCheckResultCountsWhatItDoesNotShow(t *testing.T) {
	want := expectation{pods: []string{"1", "2", "3", "4", "5", "6", "7"}, gpusPerPod: 1}
	_, problems := checkResult(want, nil)
	if len(problems) != maxProblems+1 || problems[maxProblems] != "and 2 more like the last" {
		t.Errorf("problems %q", problems)
	}
}
