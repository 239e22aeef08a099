package operators

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/lab/operators"
	"github.com/tangram-dev/tangram/test/cluster"
)

// nodes is the cluster: 8 nodes with 8 GPUs each, two to a rack.
const nodes = `
pools:
- {name: n, count: 8, gpu: {model: A100-80GB, count: 8}, rack: {size: 2}}
`

const (
	capacity = 64
	patience = 2 * time.Minute
)

//go:embed testdata/podgroups.yaml
var pluginGroups []byte

// world is the cluster that all tests share.
type world struct {
	*cluster.World
	judge *judge
	// operators that run.
	operators map[string]*local.Process
}

var shared cluster.Shared[*world]

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// End ends the cluster after the last test.
func (w *world) End(failed bool) error {
	w.judge.stop()
	return w.World.End(failed)
}

// newWorld starts the cluster once and hands it to a test, empty, with the operators that it
// needs. Breaches of what the checker watches fail the test in which they happen.
func newWorld(t *testing.T, needed ...string) *world {
	t.Helper()
	require(t, needed...)
	w := shared.Get(t, func() *world { return startWorld(t) })
	w.World = w.In(t)
	for _, name := range needed {
		if w.operators[name] == nil {
			w.restart(cluster.Operator{Name: name})
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs are in %s", filepath.Join(w.Dir(), "logs"))
		}
		w.clear()
		for _, b := range w.judge.breaches() {
			t.Errorf("%s: %s\n%s", b.Kind, b.Text, strings.Join(b.History, "\n"))
		}
	})
	return w
}

// require skips a test whose operators are not built, and returns where those are that are.
func require(t *testing.T, needed ...string) string {
	t.Helper()
	bin := cluster.Bin(t)
	cluster.Built(t, operators.Require(bin, needed...))
	return bin
}

func startWorld(t *testing.T) *world {
	o := cluster.Whole(nodes, pluginGroups)
	o.Kubernetes.APIServer = []string{"--feature-gates=GenericWorkload=true,GangScheduling=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true"}
	o.Tangram = cluster.Tangram(config.Scheduler())
	w := &world{World: cluster.Open(t, o), operators: map[string]*local.Process{}}
	w.watchPods()
	return w
}

// restart runs an operator, instead of the one that runs.
func (w *world) restart(o cluster.Operator) {
	w.T.Helper()
	if old := w.operators[o.Name]; old != nil {
		w.Must(old.Stop())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := w.RunOperator(ctx, o)
	w.Must(err)
	w.operators[o.Name] = p
}

// with runs an operator with other options until the test ends.
func (w *world) with(o cluster.Operator) {
	w.T.Helper()
	w.restart(o)
	w.T.Cleanup(func() { w.restart(cluster.Operator{Name: o.Name}) })
}

// resources of the kinds that tests make, in the order in which they are deleted.
var kinds = map[string]schema.GroupVersionResource{
	"RayJob":          {Group: "ray.io", Version: "v1", Resource: "rayjobs"},
	"RayService":      {Group: "ray.io", Version: "v1", Resource: "rayservices"},
	"RayCluster":      {Group: "ray.io", Version: "v1", Resource: "rayclusters"},
	"JobSet":          {Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"},
	"LeaderWorkerSet": {Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"},
	"StatefulSet":     {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"Deployment":      {Group: "apps", Version: "v1", Resource: "deployments"},
	"Job":             {Group: "batch", Version: "v1", Resource: "jobs"},
	"Pod":             {Group: "", Version: "v1", Resource: "pods"},
	"PodGroup":        {Group: "scheduling.k8s.io", Version: "v1alpha2", Resource: "podgroups"},
}

// apply creates what manifests describe, in the namespace default.
func (w *world) apply(docs string) {
	w.T.Helper()
	for _, o := range parse(w.T, docs) {
		w.create(o)
	}
}

func (w *world) create(o *unstructured.Unstructured) {
	w.T.Helper()
	data, err := yaml.Marshal(o.Object)
	w.Must(err)
	w.Apply(string(data))
}

// remove deletes an object, and tells the judge that its pods go because of that.
func (w *world) remove(kind, name string) {
	w.T.Helper()
	w.judge.ends(name)
	background := metav1.DeletePropagationBackground
	err := w.Dynamic.Resource(kinds[kind]).Namespace(v1.NamespaceDefault).Delete(context.Background(), name, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		w.T.Fatal(err)
	}
}

// change merges a patch into an object.
func (w *world) change(kind, name, patch string) {
	w.T.Helper()
	w.Patch(kinds[kind], name, patch)
}

// clear deletes everything that tests make and waits until no pod is left.
func (w *world) clear() {
	w.judge.ends("")
	background := metav1.DeletePropagationBackground
	for _, name := range []string{"RayJob", "RayService", "RayCluster", "JobSet", "LeaderWorkerSet", "StatefulSet", "Deployment", "Job", "Pod", "PodGroup"} {
		err := w.Dynamic.Resource(kinds[name]).Namespace(v1.NamespaceDefault).DeleteCollection(context.Background(), metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			w.T.Errorf("delete all of kind %s: %v", name, err)
		}
	}
	w.eventually("no pod is left", func(pods []*v1.Pod) (bool, string) { return len(pods) == 0, summary(pods) })
	w.judge.forget()
}

// eventually waits until pods are as a test wants them; it says what was last seen when
// they never are.
func (w *world) eventually(what string, holds func(pods []*v1.Pod) (bool, string)) {
	w.T.Helper()
	deadline := time.After(patience)
	for {
		changed := w.judge.changed()
		ok, seen := holds(w.judge.pods())
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			w.T.Fatalf("%s: not within %s; last seen: %s", what, patience, seen)
		}
	}
}

// labelled are the pods that have a label.
func labelled(pods []*v1.Pod, key, value string) (out []*v1.Pod) {
	for _, p := range pods {
		if p.Labels[key] == value {
			out = append(out, p)
		}
	}
	return out
}

func bound(pods []*v1.Pod) (n int) {
	for _, p := range pods {
		if p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// running waits until n pods with a label exist and all have places.
func (w *world) running(key, value string, n int) {
	w.T.Helper()
	w.eventually(fmt.Sprintf("%d pods with %s=%s run", n, key, value), func(pods []*v1.Pod) (bool, string) {
		of := labelled(pods, key, value)
		return len(of) == n && bound(of) == n, summary(of)
	})
}

// waiting waits until n pods with a label exist, have no place and are told why.
func (w *world) waiting(key, value string, n int, why string) {
	w.T.Helper()
	w.eventually(fmt.Sprintf("%d pods with %s=%s wait: %s", n, key, value, why), func(pods []*v1.Pod) (bool, string) {
		of, told := labelled(pods, key, value), 0
		for _, p := range of {
			if strings.Contains(cluster.Scheduled(p).Message, why) {
				told++
			}
		}
		return len(of) == n && bound(of) == 0 && told == n, summary(of)
	})
}

// racks are those in which pods with a label run.
func (w *world) racks(key, value string) map[string]int {
	w.T.Helper()
	out := map[string]int{}
	for _, p := range labelled(w.judge.pods(), key, value) {
		if node := cluster.ReadIf[v1.Node](w.World, cluster.Nodes, p.Spec.NodeName); node != nil {
			out[node.Labels[rackLabel]]++
		}
	}
	return out
}

const rackLabel = "topology.kubernetes.io/rack"

func summary(pods []*v1.Pod) string {
	var b strings.Builder
	for _, p := range pods {
		fmt.Fprintf(&b, "\n  %s on %q %s %s", p.Name, p.Spec.NodeName, p.Status.Phase, cluster.Scheduled(p).Message)
	}
	return fmt.Sprintf("%d pods, %d with a place%s", len(pods), bound(pods), b.String())
}

// parse reads YAML documents.
func parse(t testing.TB, docs string) (out []*unstructured.Unstructured) {
	t.Helper()
	for _, doc := range bytes.Split([]byte(docs), []byte("\n---")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &o.Object); err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
	return out
}
