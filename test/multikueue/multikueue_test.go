// Package multikueue tests several clusters: Kueue's MultiKueue dispatches from a manager to
// two workers, each with Tangram and Kueue, and a job goes to the worker where it can start
// first.
package multikueue

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/test/opworld"
)

const (
	labelJob = "batch.kubernetes.io/job-name"
	podSpec  = `{schedulerName: gpu-scheduler, restartPolicy: Never, containers: [{name: main, image: pause, resources: {limits: {nvidia.com/gpu: 8}}}]}`
)

var (
	jobs      = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	checks    = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "admissionchecks"}
	workloads = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}
)

// TestFirstStart: a job goes to the cluster with room; when none has, to the one that has
// room first.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	kueue := []opworld.Operator{{Name: "kueue", Config: "integrations: {frameworks: [batch/job]}"}}
	var manager, east, west *opworld.World
	var wg sync.WaitGroup // each ends with the test
	start := func(w **opworld.World, o opworld.Options) { wg.Go(func() { *w = opworld.Start(t, o) }) }
	worker := opworld.Options{Fleet: "pools: [{name: n, count: 2, gpu: {model: A100-80GB, count: 8}}]", Operators: kueue}
	start(&east, worker)
	start(&west, worker)
	start(&manager, opworld.Options{Bare: true, Operators: kueue})
	wg.Wait()
	switch { // a goroutine cannot end the test
	case t.Skipped():
		t.SkipNow()
	case t.Failed():
		t.FailNow()
	}

	clusters := map[string]*opworld.World{"manager": manager, "east": east, "west": west}
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
	east.Bound("app", "blocker", 2)
	guide := manager.Guide("multikueue.md") // what people copy: a worker, the manager
	for name, w := range map[string]*opworld.World{"east": east, "west": west} {
		w.Apply(guide[0])
		join(manager, name, w)
	}
	manager.Apply(guide[1])
	manager.Eventually("both clusters are connected", 90*time.Second, func() (bool, string) {
		o, err := manager.Dynamic.Resource(checks).Get(t.Context(), "clusters", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		active := opworld.Condition(o, "Active")
		return strings.HasPrefix(active, "True"), active
	})

	submit(manager, "first")
	west.Bound(labelJob, "first", 2)
	manager.Eventually("the manager shows the job's pods", 90*time.Second, func() (bool, string) {
		o := manager.Get(jobs, "first")
		status := fmt.Sprint(o.Object["status"])
		return strings.Contains(status, "active:2"), status
	})

	// Both are full.
	submit(manager, "second")
	for name, w := range map[string]*opworld.World{"east": east, "west": west} {
		w.Eventually("the second job is offered to "+name, 90*time.Second, func() (bool, string) {
			list, err := w.Dynamic.Resource(workloads).Namespace("default").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return false, err.Error()
			}
			for _, o := range list.Items {
				if seen := opworld.Condition(&o, "QuotaReserved"); strings.Contains(o.GetName(), "second") && strings.HasPrefix(seen, "False Pending") {
					return true, ""
				} else if strings.Contains(o.GetName(), "second") {
					return false, seen
				}
			}
			return false, fmt.Sprint(len(list.Items), " workloads")
		})
	}
	manager.Delete(jobs, "first") // west has room first
	west.Bound(labelJob, "second", 2)
	if pods := east.Pods(labelJob, "second"); len(pods) > 0 {
		t.Errorf("%d pods of the job are in the other cluster, too", len(pods))
	}
}

// told is what Kueue says of a cluster's workloads, for who looks into a failure.
func told(w *opworld.World) string {
	list, err := w.Dynamic.Resource(workloads).Namespace("default").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, o := range list.Items {
		fmt.Fprintf(&out, "%s: %v\n", o.GetName(), o.Object["status"])
	}
	return out.String()
}

// join gives the manager a cluster's kubeconfig.
func join(manager *opworld.World, name string, w *opworld.World) {
	w.T.Helper()
	path, err := w.KubeconfigFor("multikueue", "system:masters")
	if err != nil {
		w.T.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		w.T.Fatal(err)
	}
	manager.Apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: kueue-system}, data: {kubeconfig: %s}}", name, base64.StdEncoding.EncodeToString(data)))
}

// submit is a user's Job, as for one cluster.
func submit(manager *opworld.World, name string) {
	manager.T.Helper()
	manager.Apply(fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: user-queue}},
		spec: {suspend: true, completionMode: Indexed, parallelism: 2, completions: 2, template: {spec: %s}}}`, name, podSpec))
}
