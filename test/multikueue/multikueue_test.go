// Package multikueue tests several clusters: Kueue's MultiKueue dispatches from a manager to
// two workers, each with Tangram and Kueue, and a job goes to the worker where it can start
// first.
package multikueue

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

const (
	labelJob = "batch.kubernetes.io/job-name"
	podSpec  = `{schedulerName: gpu-scheduler, restartPolicy: Never, containers: [{name: main, image: pause, resources: {limits: {nvidia.com/gpu: 8}}}]}`
)

var (
	members   = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "multikueueclusters"}
	workloads = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}
)

// TestFirstStart: a job goes to the cluster with room; when none has, to the one that has
// room first.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	kueue := cluster.Operator{Name: "kueue", Config: "integrations: {frameworks: [batch/job]}"}
	var manager, east, west *cluster.World
	var wg sync.WaitGroup // each ends with the test
	start := func(w **cluster.World, o cluster.Options) { wg.Go(func() { *w = cluster.ForTest(t, o.With(kueue)) }) }
	worker := cluster.Whole("pools: [{name: n, count: 2, gpu: {model: A100-80GB, count: 8}}]")
	start(&east, worker)
	start(&west, worker)
	start(&manager, cluster.Options{Kubernetes: local.Options{ControllerManager: true}, Manifests: cluster.Manifests()})
	wg.Wait()
	switch { // a goroutine cannot end the test
	case t.Skipped():
		t.SkipNow()
	case t.Failed():
		t.FailNow()
	}

	clusters := map[string]*cluster.World{"manager": manager, "east": east, "west": west}
	t.Cleanup(func() {
		if t.Failed() {
			for name, w := range clusters {
				t.Logf("%s: %s", name, told(w))
			}
		}
	})

	// East is full of work that Kueue knows nothing of.
	for i := range 2 {
		east.Apply(fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: blocker-%d, labels: {app: blocker}}, spec: %s}", i, podSpec))
	}
	east.BoundAll("app=blocker", 2)
	guide := manager.Guide("multikueue.md") // what people copy: a worker, the manager
	for name, w := range map[string]*cluster.World{"east": east, "west": west} {
		w.Apply(guide[0])
		join(manager, name, w)
	}
	manager.Apply(guide[1])
	manager.Eventually("both clusters are connected", func() (bool, string) {
		active := 0
		var seen []string
		for _, o := range manager.List(members) { // the check is active with one of them
			said := cluster.Condition(&o, "Active")
			if seen = append(seen, o.GetName()+": "+said); strings.HasPrefix(said, "True") {
				active++
			}
		}
		return active == 2, fmt.Sprint(seen)
	})

	full(t, east)
	submit(manager, "first")
	west.BoundAll(labelJob+"=first", 2)
	manager.Eventually("the manager shows the job's pods", func() (bool, string) {
		o := manager.Object(cluster.Jobs, "first")
		status := fmt.Sprint(o.Object["status"])
		return strings.Contains(status, "active:2"), status
	})

	// Both are full.
	submit(manager, "second")
	for name, w := range map[string]*cluster.World{"east": east, "west": west} {
		w.Eventually("the second job is offered to "+name, func() (bool, string) {
			said := reserved(w, "second")
			return strings.HasPrefix(said, "False Pending"), said
		})
	}
	manager.Remove(cluster.Jobs, "first") // west has room first
	west.BoundAll(labelJob+"=second", 2)
	if pods := east.Pods(labelJob + "=second"); len(pods) > 0 {
		t.Errorf("%d pods of the job are in the other cluster, too", len(pods))
	}
}

// full waits until a cluster's Kueue knows that its nodes have no room: it hears of pods
// that it does not manage some time after they are bound, and admits jobs until then.
func full(t *testing.T, w *cluster.World) {
	t.Helper()
	probes := 0
	w.Eventually("Kueue knows that the nodes are full", func() (bool, string) {
		probes++
		name := fmt.Sprint("probe-", probes)
		submit(w, name)
		said := ""
		w.Eventually("Kueue looks at "+name, func() (bool, string) {
			said = reserved(w, name)
			return said != "", "nothing is said of it"
		})
		w.Remove(cluster.Jobs, name)
		w.Eventually(name+" is gone", func() (bool, string) { return reserved(w, name) == "", "it has a workload" })
		return strings.HasPrefix(said, "False"), said
	})
}

// reserved is what Kueue says of a job's quota; empty while it says nothing.
func reserved(w *cluster.World, job string) string {
	for _, o := range w.List(workloads) {
		if strings.HasPrefix(o.GetName(), "job-"+job+"-") {
			return cluster.Condition(&o, "QuotaReserved")
		}
	}
	return ""
}

// told is what Kueue says of a cluster's workloads, to find the cause of a failure.
func told(w *cluster.World) string {
	var out strings.Builder
	for _, o := range w.List(workloads) {
		fmt.Fprintf(&out, "%s: %v\n", o.GetName(), o.Object["status"])
	}
	return out.String()
}

// join gives the manager a cluster's kubeconfig.
func join(manager *cluster.World, name string, w *cluster.World) {
	w.T.Helper()
	path, err := w.KubeconfigFor("multikueue", "system:masters")
	w.Must(err)
	data, err := os.ReadFile(path)
	w.Must(err)
	manager.Apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: kueue-system}, data: {kubeconfig: %s}}", name, base64.StdEncoding.EncodeToString(data)))
}

// submit is a user's Job, as for one cluster.
func submit(manager *cluster.World, name string) {
	manager.T.Helper()
	manager.Apply(fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: user-queue}},
		spec: {suspend: true, completionMode: Indexed, parallelism: 2, completions: 2, template: {spec: %s}}}`, name, podSpec))
}
