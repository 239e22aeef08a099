package state

import (
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/test/cluster"
)

// world is a control plane with Tangram's kinds and rights, and a fleet.
type world struct{ *cluster.World }

// newWorld starts a control plane and creates nodes. Tests of more than the scheduler name
// its other programs.
func newWorld(t *testing.T, pools string, programs ...string) *world {
	t.Helper()
	return &world{cluster.ForTest(t, cluster.Options{
		Programs:  append(programs, "gpu-scheduler"),
		Manifests: cluster.Manifests(),
		Fleet:     "pools: " + pools,
	})}
}

// pod is a pod that asks for GPUs, in a queue.
func pod(name, queue string, gpus int) *v1.Pod { return cluster.Pod(name, gpus, cluster.Queue(queue)) }

// state is what the ConfigMap with the state has.
func (w *world) state() string {
	w.T.Helper()
	return cluster.Read[v1.ConfigMap](w.Within("kube-system"), cluster.ConfigMaps, names.StateName).Data["state.json"]
}

// setState replaces the state; "": there is none.
func (w *world) setState(text string) {
	w.T.Helper()
	var data map[string]string
	if text != "" {
		data = map[string]string{"state.json": text}
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	w.Must(err)
	w.Within("kube-system").Patch(cluster.ConfigMaps, names.StateName, string(patch))
}
