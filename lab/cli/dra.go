package cli

import (
	"context"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/lab/local"
)

// driver is the agent's name as a DRA driver.
const driver = "gpu.tangram.dev"

// awaitSlices returns once the pools of all nodes are published whole; without --dra it
// removes what an earlier run with it has left: no kubelet does here.
func (s *session) awaitSlices(ctx context.Context, nodes nodeFleet) error {
	client, err := kubernetes.NewForConfig(s.cluster.RESTConfig())
	if err != nil {
		return err
	}
	ours := metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + driver}
	api := client.ResourceV1().ResourceSlices()
	if !s.options.dra {
		return api.DeleteCollection(ctx, metav1.DeleteOptions{}, ours)
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		list, err := api.List(ctx, ours)
		if err != nil {
			return fmt.Errorf("wait for the agent to publish ResourceSlices: %w", err)
		}
		pools, devices, whole := pools(list.Items)
		if whole && pools >= len(nodes.GPUNodes()) {
			s.say("ResourceSlices ready (%s): %d devices of driver %s", local.Elapsed(begin), devices, driver)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the agent to publish ResourceSlices: %d of %d nodes have some: %w", pools, len(nodes.GPUNodes()), ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// pools counts the pools and devices of slices; whole says whether all slices of all pools
// are among them.
func pools(slices []resourceapi.ResourceSlice) (pools, devices int, whole bool) {
	seen, want := map[string]int64{}, map[string]int64{}
	for _, s := range slices {
		seen[s.Spec.Pool.Name]++
		want[s.Spec.Pool.Name] = s.Spec.Pool.ResourceSliceCount
		devices += len(s.Spec.Devices)
	}
	whole = true
	for pool, n := range want {
		whole = whole && seen[pool] == n
	}
	return len(want), devices, whole
}
