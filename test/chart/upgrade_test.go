package chart

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/test/chaos/checker"
	"github.com/tangram-dev/tangram/test/cluster"
)

const (
	upgradeFleet = "pools:\n- {name: a100, count: 4, gpu: {model: A100-80GB, count: 4}}\n"
	fleetGPUs    = 16
	// oldest is the oldest version of Kubernetes that the chart installs on. The API server
	// is the newest, told to serve what that one does.
	oldest = "1.34"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// TestUpgrade upgrades a release to new values and a new CRD and rolls it back, while pods
// and gangs come and go, then uninstalls it. A judge that shares no code with the
// scheduler watches every pod: no device is held twice, no gang is half, and in the end
// none is lost.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, upgradeFleet, "--emulated-version="+oldest, "--min-compatibility-version="+oldest)
	before := w.inventory()
	w.install(chartDir, "--set", "scheduler.pluginArgs.GPUQueue.patience=1h")
	if w.hasField() {
		t.Fatal("the definition has the field of the upgrade before it")
	}

	judge := checker.New(w.facts(), checker.DefaultLimits())
	ctx, end := context.WithCancel(t.Context())
	defer end()
	w.watch(ctx, judge)
	load := w.startLoad(ctx, judge)
	load.await(10)

	old := map[string]bool{}
	for _, p := range w.podsOf("gpu-scheduler") {
		old[p.Name] = true
	}
	next := w.chartWithField()
	w.helm("upgrade", release, next, "--namespace", namespace, "-f", localFile, "--set", "scheduler.pluginArgs.GPUQueue.patience=2h,logging.verbosity=3", "--wait", "--timeout", "2m")
	if !w.hasField() {
		t.Error("the upgrade did not change the definition of GPUNode")
	}
	for _, p := range w.podsOf("gpu-scheduler") {
		if old[p.Name] {
			t.Errorf("scheduler %s was not replaced", p.Name)
		}
	}
	load.await(10)
	w.helm("rollback", release, "1", "--namespace", namespace, "--wait", "--timeout", "2m")
	if w.hasField() {
		t.Error("the rollback did not change the definition of GPUNode back")
	}
	load.await(10)

	for _, b := range judge.Breaches(time.Now()) {
		t.Errorf("%s: %s\n%s", b.Kind, b.Text, strings.Join(b.History, "\n"))
	}
	load.stop()
	w.fill()
	for _, b := range judge.Breaches(time.Now()) {
		t.Errorf("at the end: %s: %s", b.Kind, b.Text)
	}
	t.Logf("%d bindings", judge.Summary().Bindings)

	w.helm("uninstall", release, "--namespace", namespace, "--wait", "--timeout", "2m")
	w.checkLeft(before)
}

// chartWithField is a copy of the chart in which GPUNode has a new optional field.
func (w *world) chartWithField() string {
	w.T.Helper()
	dir := filepath.Join(w.T.TempDir(), "gpu-scheduler")
	w.Must(os.CopyFS(dir, os.DirFS(chartDir)))
	const at = "              devices:\n"
	for file, change := range map[string][2]string{
		"files/crd/tangram.dev_gpunodes.yaml": {at, "              later:\n                type: string\n" + at},
		"Chart.yaml":                          {"version: 0.1.0", "version: 0.1.1"},
	} {
		path := filepath.Join(dir, file)
		data, err := os.ReadFile(path)
		w.Must(err)
		text := strings.Replace(string(data), change[0], change[1], 1)
		if text == string(data) {
			w.T.Fatalf("%s has no %q to change", file, change[0])
		}
		w.Must(os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

// hasField says whether the API server knows the field of the upgrade.
func (w *world) hasField() bool {
	w.T.Helper()
	crd, err := w.Dynamic.Resource(definitions).Get(w.T.Context(), "gpunodes.tangram.dev", metav1.GetOptions{})
	w.Must(err)
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil || len(versions) != 1 {
		w.T.Fatalf("%d versions: %v", len(versions), err)
	}
	_, has, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "later")
	return has
}

// podsOf are the pods of one of the release's components.
func (w *world) podsOf(component string) []v1.Pod {
	w.T.Helper()
	return slices.DeleteFunc(w.Within(namespace).Pods("app.kubernetes.io/name="+component), func(p v1.Pod) bool { return p.DeletionTimestamp != nil })
}

// facts are what the judge is told of the fleet.
func (w *world) facts() checker.Facts {
	facts := checker.Facts{Nodes: map[string]checker.Node{}}
	for _, n := range w.fleet.GPUNodes() {
		node := checker.Node{Devices: map[int]checker.Device{}}
		for _, d := range n.Spec.Devices {
			node.Devices[int(d.Index)] = checker.Device{UUID: d.UUID, MemoryMiB: d.MemoryMiB}
		}
		facts.Nodes[n.Name] = node
	}
	return facts
}

// watch shows every change of the load's pods to the judge.
func (w *world) watch(ctx context.Context, judge *checker.Checker) {
	w.T.Helper()
	judge.Able(time.Now(), true, "installed")
	_, err := w.Follow(ctx, func(before, after *v1.Pod) {
		if p := cmp.Or(after, before); p.Namespace == "default" {
			judge.See(time.Now(), checker.FromAPI(p), after == nil)
		}
	})
	w.Must(err)
}

// load creates single pods and gangs that run for a second or two, and waits for each.
type load struct {
	w    *world
	done atomic.Int64
	end  context.CancelFunc
	over chan struct{}
}

// startLoad keeps eight units of work under way: more GPUs than there are.
func (w *world) startLoad(ctx context.Context, judge *checker.Checker) *load {
	ctx, end := context.WithCancel(ctx)
	l := &load{w: w, end: end, over: make(chan struct{})}
	const workers = 8
	finished := make(chan struct{}, workers)
	for worker := range workers {
		go func() {
			defer func() { finished <- struct{}{} }()
			for n := 0; ctx.Err() == nil; n++ {
				l.unit(judge, fmt.Sprintf("unit-%d-%d", worker, n), 1+worker%4)
			}
		}()
	}
	go func() {
		for range workers {
			<-finished
		}
		close(l.over)
	}()
	return l
}

// unit creates the pods of one gang, waits until they have run, and deletes them. It does
// all of it though the load ends meanwhile: a gang without all its members would wait.
func (l *load) unit(judge *checker.Checker, name string, members int) {
	ctx := context.Background()
	pods := l.w.Client.CoreV1().Pods("default")
	for i := range members {
		if _, err := pods.Create(ctx, gpuPod(fmt.Sprintf("%s-%d", name, i), name, members, "1500ms"), metav1.CreateOptions{}); err != nil {
			l.w.T.Errorf("create pod: %v", err)
		}
	}
	for range 1200 {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: checker.LabelUnit + "=" + name})
		if err == nil && !slices.ContainsFunc(list.Items, func(p v1.Pod) bool { return p.Status.Phase != v1.PodSucceeded }) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	judge.UnitEnds(time.Now(), name, "it has run")
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{LabelSelector: checker.LabelUnit + "=" + name}); err != nil {
		l.w.T.Errorf("delete unit %s: %v", name, err)
	}
	l.done.Add(1)
}

// gpuPod is one member of a gang that ends by itself.
func gpuPod(name, unit string, members int, runtime string) *v1.Pod {
	p := cluster.Pod(name, 1, cluster.Label(checker.LabelUnit, unit), cluster.Label(checker.LabelMinimum, fmt.Sprint(members)), cluster.Annotate(names.AnnotationRuntime, runtime))
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	if members > 1 {
		cluster.Gang(unit, members)(p)
	}
	return p
}

// await waits until that many more units have run.
func (l *load) await(units int64) {
	l.w.T.Helper()
	target := l.done.Load() + units
	l.w.Eventually("units of load run", func() (bool, string) {
		return l.done.Load() >= target, fmt.Sprintf("%d of %d", l.done.Load(), target)
	})
}

// stop ends the load and waits for what is under way.
func (l *load) stop() {
	l.w.T.Helper()
	l.end()
	select {
	case <-l.over:
	case <-time.After(2 * time.Minute):
		l.w.T.Fatal("the load's last units do not end")
	}
}

// fill asks for every GPU of the fleet at once: a device that was lost on the way is
// missing here.
func (w *world) fill() {
	w.T.Helper()
	for i := range fleetGPUs {
		name := fmt.Sprintf("fill-%d", i)
		w.Create(gpuPod(name, name, 1, "1h"))
	}
	for i := range fleetGPUs {
		w.pod(fmt.Sprintf("fill-%d", i), "is bound", isBound)
	}
}

// inventory lists what a cluster has by kind and name, of the kinds that a chart makes.
func (w *world) inventory() map[string]bool {
	w.T.Helper()
	all := map[string]bool{}
	for group, resources := range chartKinds {
		for _, resource := range resources {
			w.inventoryOf(all, schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource})
		}
	}
	return all
}

// inventoryOf adds the objects of one kind.
func (w *world) inventoryOf(all map[string]bool, kind schema.GroupVersionResource) {
	w.T.Helper()
	list, err := w.Dynamic.Resource(kind).List(w.T.Context(), metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.T.Fatal(err)
	}
	for _, o := range list.Items {
		if o.GetNamespace() != v1.NamespaceNodeLease {
			all[strings.TrimPrefix(kind.Resource+" "+o.GetNamespace()+"/"+o.GetName(), "/")] = true
		}
	}
}

// chartKinds are the resources that a chart makes, by group; all have a version v1.
var chartKinds = map[string][]string{
	"apiextensions.k8s.io":         {"customresourcedefinitions"},
	"rbac.authorization.k8s.io":    {"clusterroles", "clusterrolebindings", "roles", "rolebindings"},
	"scheduling.k8s.io":            {"priorityclasses"},
	"admissionregistration.k8s.io": {"validatingadmissionpolicies", "validatingadmissionpolicybindings"},
	"apps":                         {"deployments", "daemonsets"},
	"policy":                       {"poddisruptionbudgets"},
	"networking.k8s.io":            {"networkpolicies"},
	"coordination.k8s.io":          {"leases"},
	"":                             {"serviceaccounts", "configmaps", "secrets", "services", "namespaces"},
}

// left is what docs/guides/install.md says that an uninstallation leaves.
var left = []string{
	"customresourcedefinitions /commands.bus.volcano.sh",
	"customresourcedefinitions /gpunodes.tangram.dev",
	"customresourcedefinitions /jobs.batch.volcano.sh",
	"customresourcedefinitions /podgroups.scheduling.volcano.sh",
	"customresourcedefinitions /queues.scheduling.volcano.sh",
	"leases kube-system/gpu-controller",
	"leases kube-system/gpu-scheduler",
	"namespaces /tangram-system",
}

// checkLeft compares what there is with what there was. What Kubernetes itself puts into
// every namespace goes with the namespace.
func (w *world) checkLeft(before map[string]bool) {
	w.T.Helper()
	var got []string
	for name := range w.inventory() {
		if !before[name] && name != "serviceaccounts "+namespace+"/default" && name != "configmaps "+namespace+"/kube-root-ca.crt" {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, left) {
		w.T.Errorf("left behind:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(left, "\n"))
	}
	page, err := os.ReadFile(root + "/docs/guides/install.md")
	w.Must(err)
	for _, name := range left {
		if _, object, _ := strings.Cut(name, "/"); !strings.Contains(string(page), object) {
			w.T.Errorf("docs/guides/install.md does not say that %s is left", name)
		}
	}
}
