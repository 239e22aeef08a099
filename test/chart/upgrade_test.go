package chart

import (
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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/test/chaos/checker"
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

	old := w.podsOf("gpu-scheduler")
	next := w.chartWithField()
	w.helm("upgrade", release, next, "--namespace", namespace, "-f", localFile, "--set", "scheduler.pluginArgs.GPUQueue.patience=2h,logging.verbosity=3", "--wait", "--timeout", "2m")
	if !w.hasField() {
		t.Error("the upgrade did not change the definition of GPUNode")
	}
	if both := w.podsOf("gpu-scheduler"); slices.ContainsFunc(both, func(name string) bool { return slices.Contains(old, name) }) {
		t.Errorf("schedulers %v were not replaced: %v", old, both)
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
	w.t.Helper()
	dir := filepath.Join(w.t.TempDir(), "gpu-scheduler")
	if err := os.CopyFS(dir, os.DirFS(chartDir)); err != nil {
		w.t.Fatal(err)
	}
	const at = "              devices:\n"
	for file, change := range map[string][2]string{
		"files/crd/tangram.dev_gpunodes.yaml": {at, "              later:\n                type: string\n" + at},
		"Chart.yaml":                          {"version: 0.1.0", "version: 0.1.1"},
	} {
		path := filepath.Join(dir, file)
		data, err := os.ReadFile(path)
		if err != nil {
			w.t.Fatal(err)
		}
		text := strings.Replace(string(data), change[0], change[1], 1)
		if text == string(data) {
			w.t.Fatalf("%s has no %q to change", file, change[0])
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	return dir
}

// hasField says whether the API server knows the field of the upgrade.
func (w *world) hasField() bool {
	w.t.Helper()
	crd, err := w.Dynamic.Resource(definitions).Get(w.t.Context(), "gpunodes.tangram.dev", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil || len(versions) != 1 {
		w.t.Fatalf("%d versions: %v", len(versions), err)
	}
	_, has, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "later")
	return has
}

func (w *world) podsOf(component string) []string {
	w.t.Helper()
	list, err := w.Client.CoreV1().Pods(namespace).List(w.t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + component})
	if err != nil {
		w.t.Fatal(err)
	}
	var all []string
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			all = append(all, p.Name)
		}
	}
	return all
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
	w.t.Helper()
	judge.Able(time.Now(), true, "installed")
	factory := informers.NewSharedInformerFactoryWithOptions(w.Client, 0, informers.WithNamespace("default"))
	informer := factory.Core().V1().Pods().Informer()
	see := func(obj any, gone bool) {
		if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tomb.Obj
		}
		judge.See(time.Now(), checker.FromAPI(obj.(*v1.Pod)), gone)
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { see(obj, false) }, UpdateFunc: func(_, obj any) { see(obj, false) }, DeleteFunc: func(obj any) { see(obj, true) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		w.t.Fatal("pods cannot be watched")
	}
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
		if _, err := pods.Create(ctx, gpuPod(fmt.Sprintf("%s-%d", name, i), name, members, 1, "1500ms"), metav1.CreateOptions{}); err != nil {
			l.w.t.Errorf("create pod: %v", err)
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
		l.w.t.Errorf("delete unit %s: %v", name, err)
	}
	l.done.Add(1)
}

// gpuPod is one member of a gang that ends by itself.
func gpuPod(name, unit string, members, gpus int, runtime string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{checker.LabelUnit: unit, checker.LabelMinimum: fmt.Sprint(members)},
			Annotations: map[string]string{names.AnnotationRuntime: runtime},
		},
		Spec: v1.PodSpec{
			SchedulerName: names.SchedulerName, RestartPolicy: v1.RestartPolicyNever,
			Containers: []v1.Container{{Name: "main", Image: "train", Resources: v1.ResourceRequirements{
				Limits: v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(int64(gpus), resource.DecimalSI)},
			}}},
		},
	}
	if members > 1 {
		p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = unit, fmt.Sprint(members)
	}
	return p
}

// await waits until that many more units have run.
func (l *load) await(units int64) {
	l.w.t.Helper()
	target := l.done.Load() + units
	l.w.eventually("units of load run", time.Minute, func() (bool, string) {
		return l.done.Load() >= target, fmt.Sprintf("%d of %d", l.done.Load(), target)
	})
}

// stop ends the load and waits for what is under way.
func (l *load) stop() {
	l.w.t.Helper()
	l.end()
	select {
	case <-l.over:
	case <-time.After(2 * time.Minute):
		l.w.t.Fatal("the load's last units do not end")
	}
}

// fill asks for every GPU of the fleet at once: a device that was lost on the way is
// missing here.
func (w *world) fill() {
	w.t.Helper()
	for i := range fleetGPUs {
		name := fmt.Sprintf("fill-%d", i)
		if _, err := w.Client.CoreV1().Pods("default").Create(w.t.Context(), gpuPod(name, name, 1, 1, "1h"), metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
	for i := range fleetGPUs {
		w.pod(fmt.Sprintf("fill-%d", i), "is bound", isBound)
	}
}

// inventory lists what a cluster has by kind and name, of the kinds that a chart makes.
func (w *world) inventory() map[string]bool {
	w.t.Helper()
	all := map[string]bool{}
	for _, kind := range []schema.GroupVersionResource{
		definitions,
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "daemonsets"},
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "secrets"},
		{Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "namespaces"},
	} {
		list, err := w.Dynamic.Resource(kind).List(w.t.Context(), metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			w.t.Fatal(err)
		}
		for _, o := range list.Items {
			if o.GetNamespace() == v1.NamespaceNodeLease {
				continue
			}
			all[strings.TrimPrefix(kind.Resource+" "+o.GetNamespace()+"/"+o.GetName(), "/")] = true
		}
	}
	return all
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
	w.t.Helper()
	var got []string
	for name := range w.inventory() {
		if !before[name] && name != "serviceaccounts "+namespace+"/default" && name != "configmaps "+namespace+"/kube-root-ca.crt" {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, left) {
		w.t.Errorf("left behind:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(left, "\n"))
	}
	page, err := os.ReadFile(root + "/docs/guides/install.md")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range left {
		if _, object, _ := strings.Cut(name, "/"); !strings.Contains(string(page), object) {
			w.t.Errorf("docs/guides/install.md does not say that %s is left", name)
		}
	}
}
