package operators

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/internal/operators"
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
	*local.Cluster
	bin     string
	client  kubernetes.Interface
	dynamic dynamic.Interface
	judge   *judge
	// operators that run.
	operators map[string]*local.Process
	t         *testing.T // of the test that runs
}

var shared struct {
	sync.Mutex
	world *world
	err   error
}

// TestMain stops the shared cluster after the last test.
func TestMain(m *testing.M) {
	code := m.Run()
	if w := shared.world; w != nil {
		w.judge.stop()
		err := w.Discard()
		if err == nil && code == 0 { // logs of a failure are kept
			err = os.RemoveAll(w.Dir())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// newWorld starts the cluster once and hands it to a test, empty, with the operators that it
// needs. Breaches of what the checker watches fail the test in which they happen.
func newWorld(t *testing.T, needed ...string) *world {
	t.Helper()
	bin := binDir(t, needed...)
	shared.Lock()
	defer shared.Unlock()
	if shared.world == nil && shared.err == nil {
		shared.world, shared.err = startWorld(bin)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	w := shared.world
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

// binDir is where the programs are; the test is skipped when they are not.
func binDir(t *testing.T, needed ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short, and this test starts a control plane")
	}
	dir, given := os.LookupEnv("TANGRAM_BIN")
	if !given {
		dir = filepath.Join("..", "..", "bin")
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = local.RequirePrograms(dir, "etcd", "kube-apiserver", "kube-controller-manager", "kwok", "gpu-scheduler", "gpu-controller")
	}
	if err == nil {
		err = operators.Require(dir, needed...)
	}
	switch {
	case err != nil && given:
		t.Fatal(err) // make has built them: a skip would hide a broken build
	case err != nil:
		t.Skipf("skipped: %v", err)
	}
	return dir
}

func startWorld(bin string) (w *world, err error) {
	dir, err := os.MkdirTemp("", "tangram-operators-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cluster, err := local.Start(ctx, local.Options{
		Dir: dir, Bin: bin, ControllerManager: true, KWOK: true,
		APIServer: []string{"--feature-gates=GenericWorkload=true,GangScheduling=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true"},
	})
	if err != nil {
		return nil, err
	}
	w = &world{Cluster: cluster, bin: bin, operators: map[string]*local.Process{}}
	defer func() {
		if err != nil {
			_ = cluster.Stop()
		}
	}()
	if w.client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return nil, err
	}
	if w.dynamic, err = dynamic.NewForConfig(cluster.RESTConfig()); err != nil {
		return nil, err
	}
	for _, doc := range [][]byte{config.CRDs(), config.VolcanoCRDs(), config.RBAC(), config.ControllerRBAC(), pluginGroups} {
		if err := cluster.ApplyManifests(ctx, doc); err != nil {
			return nil, err
		}
	}
	f, err := fleet.Parse("fleet.yaml", []byte(nodes))
	if err != nil {
		return nil, err
	}
	if err := cluster.CreateFleet(ctx, f); err != nil {
		return nil, err
	}
	if err := w.run(ctx, "gpu-scheduler", func(port int, kubeconfig string) ([]string, error) {
		file := filepath.Join(dir, "scheduler.yaml")
		return append(cluster.ServeArgs(port, kubeconfig), "--config="+file, "--leader-elect=false"), os.WriteFile(file, config.Scheduler(), 0o600)
	}); err != nil {
		return nil, err
	}
	if err := w.run(ctx, "gpu-controller", func(port int, kubeconfig string) ([]string, error) {
		return append(cluster.ListenArgs(port), "--kubeconfig="+kubeconfig, "--leader-elect=false"), nil
	}); err != nil {
		return nil, err
	}
	w.judge, err = watchPods(ctx, w)
	return w, err
}

// run starts a program of ours as the user it has.
func (w *world) run(ctx context.Context, name string, args func(port int, kubeconfig string) ([]string, error)) error {
	kubeconfig, err := w.KubeconfigFor("system:tangram:" + name)
	if err != nil {
		return err
	}
	port, err := local.FreePort()
	if err != nil {
		return err
	}
	ready, err := w.ReadyAt(port, "/healthz")
	if err != nil {
		return err
	}
	list, err := args(port, kubeconfig)
	if err != nil {
		return err
	}
	_, err = w.Run(ctx, local.Program{Name: name, Path: filepath.Join(w.bin, name), Args: list, Ready: ready})
	return err
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
	o.Cluster, o.Bin = w.Cluster, w.bin
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
	err := w.dynamic.Resource(kinds[kind]).Namespace(v1.NamespaceDefault).Delete(context.Background(), name, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
}

// change merges a patch into an object.
func (w *world) change(kind, name, patch string) {
	w.t.Helper()
	if _, err := w.dynamic.Resource(kinds[kind]).Namespace(v1.NamespaceDefault).Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// clear deletes everything that tests make and waits until no pod is left.
func (w *world) clear() {
	w.judge.ends("")
	background := metav1.DeletePropagationBackground
	for _, name := range []string{"RayJob", "RayService", "RayCluster", "JobSet", "LeaderWorkerSet", "StatefulSet", "Deployment", "Job", "Pod", "PodGroup"} {
		err := w.dynamic.Resource(kinds[name]).Namespace(v1.NamespaceDefault).DeleteCollection(context.Background(), metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
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
		if node, err := w.client.CoreV1().Nodes().Get(context.Background(), p.Spec.NodeName, metav1.GetOptions{}); err == nil {
			out[node.Labels[rackLabel]]++
		}
	}
	return out
}

const rackLabel = "topology.kubernetes.io/rack"

// waitsFor is what the pod's PodScheduled condition says.
func waitsFor(p *v1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c.Message
		}
	}
	return ""
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
