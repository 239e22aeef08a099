package dialect

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/core/model"
)

// TestPodNeeds: what a pod needs beside devices is read alike of its request and of its
// claims, and every pod has it: those that Tangram would refuse and those without
// devices too. TestCoversAsNodeResourcesFitDoes in test/property compares the amounts
// with kube-scheduler's own.
func TestPodNeeds(t *testing.T) {
	tests := []struct {
		name       string
		containers []v1.Container
		host       model.Host
		want       string
	}{
		{"nothing", []v1.Container{container("a", "")}, model.Host{}, "[{pods 1}]"},
		{"CPU, and memory in bytes", []v1.Container{container("a", "cpu=1500m memory=1000")}, model.Host{CPU: 1500, Memory: 1000}, "[{pods 1}]"},
		{"whole GPUs", []v1.Container{container("a", "nvidia.com/gpu=2")}, model.Host{}, "[{nvidia.com/gpu 2} {pods 1}]"},
		{"a HAMi share counts as one GPU; its amounts are Tangram's", []v1.Container{container("a", "nvidia.com/gpu=1 nvidia.com/gpumem=1000 nvidia.com/gpucores=30")},
			model.Host{}, "[{nvidia.com/gpu 1} {pods 1}]"},
		{"a slice is Tangram's", []v1.Container{container("a", "nvidia.com/mig-1g.5gb=1")}, model.Host{}, "[{pods 1}]"},
		{"others' resources", []v1.Container{container("a", "rdma/hca=1 ephemeral-storage=5 hugepages-2Mi=2Mi"), container("b", "rdma/hca=2")},
			model.Host{}, "[{ephemeral-storage 5} {hugepages-2Mi 2097152} {pods 1} {rdma/hca 3}]"},
		{"refused: two vendors", []v1.Container{container("a", "nvidia.com/gpu=1 amd.com/gpu=2 rdma/hca=1")}, model.Host{}, "[{amd.com/gpu 2} {nvidia.com/gpu 1} {pods 1} {rdma/hca 1}]"},
		{"refused, and no device in it", []v1.Container{container("a", "nvidia.com/gpumem=-1 rdma/hca=1")}, model.Host{}, "[{pods 1} {rdma/hca 1}]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := bound("", tt.containers...)
			if r := HostRequest(pod); r.Host != tt.host || fmt.Sprint(r.Extras) != tt.want {
				t.Errorf("without devices: %v %v, want %v %s", r.Host, r.Extras, tt.host, tt.want)
			}
			if r, err := Request(pod); err == nil && r != nil && (r.Host != tt.host || fmt.Sprint(r.Extras) != tt.want) {
				t.Errorf("with devices: %v %v, want %v %s", r.Host, r.Extras, tt.host, tt.want)
			}
			claims, _ := Claims(pod)
			var host model.Host
			var extras model.Extras
			for _, c := range claims {
				host, extras = host.Plus(c.Host), extras.Plus(c.Extras)
			}
			if host != tt.host || fmt.Sprint(extras) != tt.want {
				t.Errorf("%d claims of %v %v together, want %v %s", len(claims), host, extras, tt.host, tt.want)
			}
		})
	}
}

func TestNodeOffers(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{
		Allocatable: resources("cpu=8 memory=1000 pods=110 nvidia.com/gpu=8 nvidia.com/mig-1g.5gb=3 rdma/hca=2 hugepages-1Gi=0"),
	}}
	n, err := Inventory(node, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := (model.Host{CPU: 8000, Memory: 1000}); n.Host != want {
		t.Errorf("got %v, want %v", n.Host, want)
	}
	if got, want := fmt.Sprint(n.Extras), "[{nvidia.com/gpu 8} {pods 110} {rdma/hca 2}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
