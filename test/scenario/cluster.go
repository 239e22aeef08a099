package scenario

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

const startTimeout = 2 * time.Minute

// clusterEngine is a real API server with gpu-scheduler beside it. All files
// share one: between files the objects are deleted, the processes stay.
type clusterEngine struct {
	cluster   *cluster.Cluster
	scheduler *local.Serving

	client   kubernetes.Interface
	gpuNodes dynamic.ResourceInterface
	// objects are of kinds that the client has no types for.
	objects dynamic.Interface
	// written are the objects other than pods as the API server returned them: only the
	// story writes those.
	written *State
	classes map[string]bool
	// pods and events follow the API server; a list would wait up to 100 ms for
	// it to be sure that nothing is missing.
	pods, events cache.SharedIndexInformer
	// known is the state the scheduler was last seen to agree with.
	known *State
	// asked counts questions, for their pods' names.
	asked int
}

// NewCluster starts the control plane and the scheduler, and ends them with the
// test. It skips the test, and says why, when programs are missing or in -short.
func NewCluster(t *testing.T) Engine {
	t.Helper()
	started := cluster.ForTest(t, cluster.Options{
		Programs:  []string{"gpu-scheduler"},
		Manifests: [][]byte{config.CRDs(), config.VolcanoCRDs(), NodeTopologyCRD, config.RBAC()},
	}).Cluster
	c := &clusterEngine{
		cluster: started, client: started.Client, gpuNodes: started.Dynamic.Resource(v1alpha1.GPUNodes), objects: started.Dynamic,
		known: newState(), written: newState(), classes: map[string]bool{},
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := c.namespace(ctx, askNamespace); err != nil {
		t.Fatal(err)
	}
	if err := c.startScheduler(ctx); err != nil {
		t.Fatal(err)
	}
	watching, stop := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(c.client, 0)
	t.Cleanup(func() {
		stop()
		factory.Shutdown()
	})
	c.pods, c.events = factory.Core().V1().Pods().Informer(), factory.Events().V1().Events().Informer()
	factory.StartWithContext(watching)
	factory.WaitForCacheSyncWithContext(ctx)
	return c
}

// startScheduler starts the scheduler, which says often why pods wait.
func (c *clusterEngine) startScheduler(ctx context.Context) (err error) {
	const where = "      reservations: 1\n" // among GPUQueue's arguments
	settings := bytes.Replace(config.Scheduler(), []byte(where), fmt.Appendf(nil, "      reportEvery: %v\n%s", reportEvery, where), 1)
	c.scheduler, err = c.cluster.Launch(ctx, local.Component{Name: "gpu-scheduler", Config: settings, Flags: []string{cluster.Alone}})
	return err
}

func (c *clusterEngine) Name() string            { return "cluster" }
func (c *clusterEngine) Patience() time.Duration { return 30 * time.Second }
func (c *clusterEngine) Now() time.Time          { return time.Now() }

func (c *clusterEngine) Tick(ctx context.Context, d time.Duration) error { return sleep(ctx, d) }

// Restart kills the scheduler. The new one knows nothing, so everything is asked.
func (c *clusterEngine) Restart(ctx context.Context) error {
	if err := c.scheduler.Kill(); err != nil {
		return err
	}
	c.known = newState()
	return c.startScheduler(ctx)
}

// Reset deletes all objects and waits until the scheduler has seen that.
func (c *clusterEngine) Reset(ctx context.Context) error {
	if err := c.wipe(ctx); err != nil {
		return fmt.Errorf("wipe: %w", err)
	}
	return c.Settle(ctx)
}
