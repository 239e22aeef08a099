package node

import (
	"context"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
)

// startCluster starts a control plane with Tangram's permissions and kinds.
func startCluster(t testing.TB, change ...func(*local.Options)) *local.Cluster {
	t.Helper()
	m := require(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	o := local.Options{Dir: t.TempDir(), Bin: m.bin}
	for _, c := range change {
		c(&o)
	}
	cluster, err := local.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, manifests := range [][]byte{config.RBAC(), config.AgentRBAC(), config.CRDs()} {
		if err := cluster.ApplyManifests(ctx, manifests); err != nil {
			t.Fatal(err)
		}
	}
	return cluster
}

// A pod bound to the node runs as a real container, and what it prints can be read;
// containers survive restarts of kubelet and containerd.
func TestPodRuns(t *testing.T) {
	t.Parallel()
	n := Start(t, Options{Cluster: startCluster(t), Name: "real-0"})
	n.Create(n.Pod("first", nil))
	seen := n.Look("first")
	if given := seen.Given(); len(given) > 0 {
		t.Errorf("a pod that asks for nothing sees %v", given)
	}
	for _, d := range seen.Devices {
		if d.Path == "/dev/null" && (d.Number() != "1:3" || d.Open != "") {
			t.Errorf("/dev/null is %+v", d)
		}
	}
	n.RestartKubelet()
	n.RestartContainerd()
	n.Create(n.Pod("second", nil))
	n.Look("second")
	if p := n.Get("first"); p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the first pod was restarted: %s", describe(p))
	}
	n.Delete("first", "second")
}
