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
	members   = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "multikueueclusters"}
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
		list, err := manager.Dynamic.Resource(members).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		active := 0
		var seen []string
		for _, o := range list.Items { // the check is active with one of them
			said := opworld.Condition(&o, "Active")
			if seen = append(seen, o.GetName()+": "+said); strings.HasPrefix(said, "True") {
				active++
			}
		}
		return active == 2, fmt.Sprint(seen)
	})

	full(t, east)
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
			said := reserved(w, "second")
			return strings.HasPrefix(said, "False Pending"), said
		})
	}
	manager.Delete(jobs, "first") // west has room first
	west.Bound(labelJob, "second", 2)
	if pods := east.Pods(labelJob, "second"); len(pods) > 0 {
		t.Errorf("%d pods of the job are in the other cluster, too", len(pods))
	}
}

// full waits until a cluster's Kueue knows that its nodes have no room: it hears of pods
// that it does not manage some time after they are bound, and admits jobs until then.
func full(t *testing.T, w *opworld.World) {
	t.Helper()
	probes := 0
	w.Eventually("Kueue knows that the nodes are full", 90*time.Second, func() (bool, string) {
		probes++
		name := fmt.Sprint("probe-", probes)
		submit(w, name)
		said := ""
		w.Eventually("Kueue looks at "+name, 30*time.Second, func() (bool, string) {
			said = reserved(w, name)
			return said != "", "nothing is said of it"
		})
		w.Delete(jobs, name)
		w.Eventually(name+" is gone", 30*time.Second, func() (bool, string) { return reserved(w, name) == "", "it has a workload" })
		return strings.HasPrefix(said, "False"), said
	})
}

// reserved is what Kueue says of a job's quota; empty while it says nothing.
func reserved(w *opworld.World, job string) string {
	list, err := w.Dynamic.Resource(workloads).Namespace("default").List(w.T.Context(), metav1.ListOptions{})
	if err != nil {
		return ""
	}
	for _, o := range list.Items {
		if strings.HasPrefix(o.GetName(), "job-"+job+"-") {
			return opworld.Condition(&o, "QuotaReserved")
		}
	}
	return ""
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
