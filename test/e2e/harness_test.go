// Package e2e tests Tangram on a real API server: etcd and kube-apiserver as
// child processes, gpu-scheduler as its users run it.
//
// Every test has a control plane of its own and mostly waits, so tests call t.Parallel;
// those that measure shares do not, and run alone before the others. Tests named hole_* show
// faults that issue 9 listed.
package e2e

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// world is one control plane and what a test does to it.
type world struct{ *cluster.World }

// newWorld starts a control plane with Tangram's permissions, and with its CRDs
// unless the test is about their absence.
func newWorld(t *testing.T, crds bool) *world {
	t.Helper()
	docs := [][]byte{config.RBAC()}
	if crds {
		docs = append(docs, config.CRDs())
	}
	return startWorld(t, local.Options{}, docs...)
}

// fleetWorld is a control plane with Tangram's kinds, nodes and a scheduler.
func fleetWorld(t *testing.T, fleet string) *world {
	t.Helper()
	w := newWorld(t, true)
	w.Fleet(fleet)
	w.Scheduler(nil)
	return w
}

// startWorld starts a control plane and applies manifests.
func startWorld(t *testing.T, o local.Options, docs ...[]byte) *world {
	t.Helper()
	return &world{cluster.ForTest(t, cluster.Options{Programs: []string{"gpu-scheduler"}, Kubernetes: o, Manifests: docs})}
}

// within is the world as a subtest sees it.
func (w *world) within(t *testing.T) *world { return &world{w.In(t)} }

// pod is a pod of the namespace default that asks for GPUs; change may make it anything else.
func pod(name string, gpus int, change ...cluster.Change) *v1.Pod {
	return cluster.Pod(name, gpus, append([]cluster.Change{cluster.In("default")}, change...)...)
}
