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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/internal/operators"
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
	*cluster.Cluster
	judge *judge
	// operators that run.
	operators map[string]*local.Process
	t         *testing.T // of the test that runs
}

var shared cluster.Shared[*world]

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// End ends the cluster after the last test.
func (w *world) End(failed bool) error {
	w.judge.stop()
	return w.Cluster.End(failed)
}

// newWorld starts the cluster once and hands it to a test, empty, with the operators that it
// needs. Breaches of what the checker watches fail the test in which they happen.
func newWorld(t *testing.T, needed ...string) *world {
	t.Helper()
	bin := binDir(t, needed...)
	w := shared.Get(t, func() (*world, error) { return startWorld(bin) })
	w.t = t
	for _, name := range needed {
		if w.operators[name] == nil {
			w.restart(name, operators.Options{})
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

// binDir is where the programs are, and the operators that a test needs.
func binDir(t *testing.T, needed ...string) string {
	t.Helper()
	bin := cluster.Bin(t, "kube-controller-manager", "kwok", "gpu-scheduler", "gpu-controller")
	cluster.Built(t, operators.Require(bin, needed...))
	return bin
}

func startWorld(bin string) (*world, error) {
	c, err := cluster.Start(cluster.Options{
		Kubernetes: local.Options{
			Bin: bin, ControllerManager: true, KWOK: true,
			APIServer: []string{"--feature-gates=GenericWorkload=true,GangScheduling=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true"},
		},
		Manifests: [][]byte{config.CRDs(), config.VolcanoCRDs(), config.RBAC(), config.ControllerRBAC(), pluginGroups},
		Fleet:     nodes,
		Tangram:   cluster.Tangram(config.Scheduler()),
	})
	if err != nil {
		return nil, err
	}
	w := &world{Cluster: c, operators: map[string]*local.Process{}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w.judge, err = watchPods(ctx, w)
	return w, c.EndIf(err)
}

// restart runs an operator, instead of the one that runs.
func (w *world) restart(name string, o operators.Options) {
	w.t.Helper()
	if old := w.operators[name]; old != nil {
		if err := old.Stop(); err != nil {
			w.t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	o.Cluster, o.Bin = w.Cluster.Cluster, w.Bin
	p, err := operators.Run(ctx, name, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.operators[name] = p
}

// with runs an operator with other options until the test ends.
func (w *world) with(name string, o operators.Options) {
	w.t.Helper()
	w.restart(name, o)
	w.t.Cleanup(func() { w.restart(name, operators.Options{}) })
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
	w.t.Helper()
	for _, o := range parse(w.t, docs) {
		w.create(o)
	}
}

func (w *world) create(o *unstructured.Unstructured) {
	w.t.Helper()
	data, err := yaml.Marshal(o.Object)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.ApplyManifests(ctx, data); err != nil {
		w.t.Fatal(err)
	}
}

// remove deletes an object, and tells the judge that its pods go because of that.
func (w *world) remove(kind, name string) {
	w.t.Helper()
	w.judge.ends(name)
	background := metav1.DeletePropagationBackground
	err := w.Dynamic.Resource(kinds[kind]).Namespace(v1.NamespaceDefault).Delete(context.Background(), name, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
}

// change merges a patch into an object.
func (w *world) change(kind, name, patch string) {
	w.t.Helper()
	if _, err := w.Dynamic.Resource(kinds[kind]).Namespace(v1.NamespaceDefault).Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// clear deletes everything that tests make and waits until no pod is left.
func (w *world) clear() {
	w.judge.ends("")
	background := metav1.DeletePropagationBackground
	for _, name := range []string{"RayJob", "RayService", "RayCluster", "JobSet", "LeaderWorkerSet", "StatefulSet", "Deployment", "Job", "Pod", "PodGroup"} {
		err := w.Dynamic.Resource(kinds[name]).Namespace(v1.NamespaceDefault).DeleteCollection(context.Background(), metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			w.t.Errorf("delete all of kind %s: %v", name, err)
		}
	}
	w.eventually("no pod is left", func(pods []*v1.Pod) (bool, string) { return len(pods) == 0, summary(pods) })
	w.judge.forget()
}

// eventually waits until pods are as a test wants them; it says what was last seen when
// they never are.
func (w *world) eventually(what string, holds func(pods []*v1.Pod) (bool, string)) {
	w.t.Helper()
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
			w.t.Fatalf("%s: not within %s; last seen: %s", what, patience, seen)
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
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d pods with %s=%s run", n, key, value), func(pods []*v1.Pod) (bool, string) {
		of := labelled(pods, key, value)
		return len(of) == n && bound(of) == n, summary(of)
	})
}

// waiting waits until n pods with a label exist, have no place and are told why.
func (w *world) waiting(key, value string, n int, why string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d pods with %s=%s wait: %s", n, key, value, why), func(pods []*v1.Pod) (bool, string) {
		of, told := labelled(pods, key, value), 0
		for _, p := range of {
			if strings.Contains(waitsFor(p), why) {
				told++
			}
		}
		return len(of) == n && bound(of) == 0 && told == n, summary(of)
	})
}

// racks are those in which pods with a label run.
func (w *world) racks(key, value string) map[string]int {
	w.t.Helper()
	out := map[string]int{}
	for _, p := range labelled(w.judge.pods(), key, value) {
		if node, err := w.Client.CoreV1().Nodes().Get(context.Background(), p.Spec.NodeName, metav1.GetOptions{}); err == nil {
			out[node.Labels[rackLabel]]++
		}
	}
	return out
}

const rackLabel = "topology.kubernetes.io/rack"

// waitsFor is what the pod's PodScheduled condition says.
func waitsFor(p *v1.Pod) string {
	return cluster.Scheduled(p).Message
}

func summary(pods []*v1.Pod) string {
	var b strings.Builder
	for _, p := range pods {
		fmt.Fprintf(&b, "\n  %s on %q %s %s", p.Name, p.Spec.NodeName, p.Status.Phase, waitsFor(p))
	}
	return fmt.Sprintf("%d pods, %d with a place%s", len(pods), bound(pods), b.String())
}

// parse reads YAML documents.
func parse(t *testing.T, docs string) (out []*unstructured.Unstructured) {
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
