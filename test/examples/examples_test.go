// Package examples applies every manifest of the requirement documents
// (examples/documents) to one real cluster and checks where its pods went. The table in
// table_test.go is meant to be read.
package examples

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/config"
	manifests "github.com/tangram-dev/tangram/examples"
	"github.com/tangram-dev/tangram/test/cluster"
)

// row says what one file does.
type row struct {
	file string
	// pods are all pods that come of it.
	pods []pods
	// check looks at what is not a matter of single pods, and at files without pods.
	check func(*example)
	// after: it is applied when the pods of that file are bound.
	after string
}

// pods are what comes of one pod, task or template.
type pods struct {
	name  string // of the pods; * stands for any characters
	count int
	// nodes are the pools whose nodes they run on, separated by |; empty: they wait.
	nodes string
	// each, instead of count and nodes: one on every node with such labels.
	each func(labels map[string]string) bool
	// holds is what each pod was given.
	holds string
	// cards is on how many cards they are together, indexes which of the node; "": any.
	cards   int
	indexes string
	spread  string
	// waits are words of the reason in each pod's condition.
	waits string
}

const (
	anywhere       = "*"
	nothing        = "nothing"
	differentNodes = "different nodes"
)

// TestEveryManifestHasARow: no file is left out, here and in examples/README.md; none is named
// that is not there.
func TestEveryManifestHasARow(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range documents {
		if seen[r.file] {
			t.Errorf("%s has two rows", r.file)
		}
		seen[r.file] = true
		if len(r.pods) == 0 && r.check == nil {
			t.Errorf("the row of %s checks nothing", r.file)
		}
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "examples", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range manifests.Documents() {
		if !strings.Contains(string(readme), "(documents/"+file+")") {
			t.Errorf("examples/README.md does not name documents/%s", file)
		}
		if !seen[file] {
			t.Errorf("examples/documents/%s has no row in table_test.go", file)
		}
		delete(seen, file)
	}
	for file := range seen {
		t.Errorf("%s has a row and is not in examples/documents", file)
	}
}

// TestDocuments applies all files, each in a namespace of its own, and checks the table.
func TestDocuments(t *testing.T) {
	o := cluster.Whole(string(manifests.Document("fleet.yaml")), manifests.Document("queue.yaml"), manifests.Document("volumes.yaml"))
	o.Tangram = cluster.Tangram(config.SchedulerForAll()) // as in the local cluster
	w := cluster.ForTest(t, o.With(cluster.Operator{Name: "kuberay"}))
	holdLease(w)
	var all []*example
	for _, r := range documents {
		all = append(all, &example{World: w.Within(namespaceOf(r.file)), row: r, objects: decode(t, r.file)})
	}
	// All at once, and only then are they looked at: they mostly wait for others.
	var running sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, e := range all {
		if e.row.after != "" {
			continue
		}
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			e.apply()
		})
	}
	running.Wait()
	for _, e := range all {
		t.Run(e.row.file, func(t *testing.T) {
			e.World = e.In(t)
			if e.row.after != "" {
				i := slices.IndexFunc(documents, func(r row) bool { return r.file == e.row.after })
				all[i].World = all[i].In(t)
				all[i].verify()
				e.apply()
			}
			if e.failed != nil {
				t.Fatal(e.failed)
			}
			e.verify()
			if e.row.check != nil {
				e.row.check(e)
			}
		})
	}
}

// example is one file in the cluster.
type example struct {
	*cluster.World
	row     row
	objects []*unstructured.Unstructured
	failed  error
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// namespaceOf is a namespace for a file: 003/5.1-training-job.yaml is in d003-5-1-training-job.
func namespaceOf(file string) string {
	return "d" + notInNames.ReplaceAllString(strings.TrimSuffix(file, ".yaml"), "-")
}

// decode reads a file's objects, without unknown fields at the top.
func decode(t *testing.T, file string) (objects []*unstructured.Unstructured) {
	t.Helper()
	for _, doc := range strings.Split(string(manifests.Document(file)), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(doc), &o.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, o)
	}
	return objects
}

// clusterKinds have no namespace.
var clusterKinds = []string{"Node", "PriorityClass", "ClusterRole", "ClusterRoleBinding"}

// fileKinds are no objects of the API but files of programs.
var fileKinds = []string{"KubeSchedulerConfiguration", "KubeletConfiguration"}

// apply creates the file's namespace and its objects.
func (e *example) apply() {
	ctx := context.Background()
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}}
	if _, e.failed = e.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); e.failed != nil {
		return
	}
	// A namespace takes no pods until its service account is there.
	for deadline := time.Now().Add(cluster.Limit); ; time.Sleep(50 * time.Millisecond) {
		_, err := e.Client.CoreV1().ServiceAccounts(e.Namespace).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			break
		}
		if !apierrors.IsNotFound(err) || time.Now().After(deadline) {
			e.failed = fmt.Errorf("service account of namespace %s: %w", e.Namespace, err)
			return
		}
	}
	var docs [][]byte
	for _, o := range e.objects {
		kind := o.GetKind()
		if kind == "Namespace" || slices.Contains(fileKinds, kind) {
			continue
		}
		if o.Object["status"] != nil { // see 003/2.1-node.yaml
			o.SetResourceVersion("")
			if e.failed = e.create(ctx, o); e.failed != nil {
				return
			}
			continue
		}
		text, err := yaml.Marshal(e.own(o).Object)
		if err != nil {
			e.failed = err
			return
		}
		docs = append(docs, text)
	}
	if len(docs) > 0 {
		e.failed = e.ApplyManifests(ctx, bytes.Join(docs, []byte("\n---\n")))
	}
}

// own puts an object, and the service accounts it speaks of, into the file's namespace.
func (e *example) own(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	if !slices.Contains(clusterKinds, o.GetKind()) {
		o.SetNamespace(e.Namespace)
	}
	subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
	for _, s := range subjects {
		if m, ok := s.(map[string]any); ok && m["kind"] == "ServiceAccount" {
			m["namespace"] = e.Namespace
		}
	}
	if len(subjects) > 0 {
		o.Object["subjects"] = subjects
	}
	return o
}

// create makes a Node as it is written, with its status.
func (e *example) create(ctx context.Context, o *unstructured.Unstructured) error {
	text, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	node := &v1.Node{}
	if err := yaml.UnmarshalStrict(text, node); err != nil {
		return err
	}
	_, err = e.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

// verify waits until the file's pods are where the row says, and there are no others.
func (e *example) verify() {
	e.T.Helper()
	for _, want := range e.row.pods {
		e.Complete(want.name, func() string { return e.differs(want) })
	}
	for _, p := range e.live("*") {
		if !slices.ContainsFunc(e.row.pods, func(want pods) bool { return matches(want.name, p.Name) }) {
			e.T.Errorf("a pod that no row speaks of: %s", p.Name)
		}
	}
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// live are the file's pods of that name that have not ended.
func (e *example) live(name string) (found []v1.Pod) {
	e.T.Helper()
	for _, p := range e.Pods("") {
		if matches(name, p.Name) && cluster.Live(&p) {
			found = append(found, p)
		}
	}
	return found
}

// differs says how the pods are not as wanted; empty if they are.
func (e *example) differs(want pods) string {
	e.T.Helper()
	found := e.live(want.name)
	count, onEach := want.count, map[string]bool{}
	if want.each != nil {
		for _, n := range e.List(cluster.Nodes) {
			if want.each(n.GetLabels()) {
				onEach[n.GetName()] = true
			}
		}
		count = len(onEach)
	}
	if len(found) != count || count == 0 {
		return fmt.Sprintf("%d pods, want %d", len(found), count)
	}
	nodes, cards := map[string]int{}, map[string]bool{}
	for _, p := range found {
		if problem := want.judge(&p, onEach); problem != "" {
			return p.Name + ": " + problem
		}
		nodes[p.Spec.NodeName]++
		for _, c := range cardsOf(&p) {
			cards[c] = true
		}
	}
	if want.spread == differentNodes && len(nodes) != count {
		return fmt.Sprintf("on nodes %v, want different ones", nodes)
	}
	if want.cards > 0 && len(cards) != want.cards {
		return fmt.Sprintf("on cards %v, want %d", slices.Sorted(maps.Keys(cards)), want.cards)
	}
	return ""
}

// judge says how one pod is not as wanted; empty if it is.
func (want pods) judge(p *v1.Pod, onEach map[string]bool) string {
	if want.nodes == "" && want.each == nil {
		if says := cluster.Waiting(p); p.Spec.NodeName != "" || !strings.Contains(says, want.waits) {
			return fmt.Sprintf("on node %q, %s; want it to wait: %s", p.Spec.NodeName, says, want.waits)
		}
		return ""
	}
	if p.Status.Phase != v1.PodRunning {
		return fmt.Sprintf("%s, %s", p.Status.Phase, cluster.Waiting(p))
	}
	node := p.Spec.NodeName
	pool := node[:max(0, strings.LastIndex(node, "-"))]
	if want.each != nil && !onEach[node] || want.each == nil && want.nodes != anywhere && !slices.Contains(strings.Split(want.nodes, "|"), pool) {
		return fmt.Sprintf("on %s, want %s", node, want.nodes)
	}
	if got := holds(p); got != want.holds {
		return fmt.Sprintf("holds %s on %s, want %s", got, node, want.holds)
	}
	if got := indexes(p); want.indexes != "" && got != want.indexes {
		return fmt.Sprintf("has cards %s of %s, want %s", got, node, want.indexes)
	}
	return ""
}

// devices are those of a pod's record, of all containers.
func devices(p *v1.Pod) (all []record.Device) {
	r, err := record.Decode(p.Annotations[names.AnnotationDevices])
	if err != nil {
		return nil
	}
	for _, c := range r.Containers {
		all = append(all, c.Devices...)
	}
	return all
}

// holds is what a pod was given, in words: "2 GPUs", "4096 MiB", "slice 1g.10gb", "turn".
func holds(p *v1.Pod) string {
	whole := 0
	var parts []string
	for _, d := range devices(p) {
		switch {
		case d.MIG != "":
			parts = append(parts, "slice "+d.MIG)
		case d.Turn:
			parts = append(parts, "turn")
		case d.MemoryMiB > 0 && d.ComputeMilli > 0:
			parts = append(parts, fmt.Sprintf("%d MiB, %d %% compute", d.MemoryMiB, d.ComputeMilli/10))
		case d.MemoryMiB > 0:
			parts = append(parts, fmt.Sprintf("%d MiB", d.MemoryMiB))
		default:
			whole++
		}
	}
	switch {
	case whole == 1:
		parts = append(parts, "1 GPU")
	case whole > 1:
		parts = append(parts, fmt.Sprintf("%d GPUs", whole))
	case len(parts) == 0:
		return nothing
	}
	return strings.Join(parts, "; ")
}

// indexes are the numbers of a pod's cards: "0,2".
func indexes(p *v1.Pod) string {
	var all []int
	for _, d := range devices(p) {
		all = append(all, d.Index)
	}
	slices.Sort(all)
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(all), " ", ","), "[]")
}

// cardsOf are a pod's cards, as node/index.
func cardsOf(p *v1.Pod) (all []string) {
	for _, d := range devices(p) {
		all = append(all, fmt.Sprintf("%s/%d", p.Spec.NodeName, d.Index))
	}
	return all
}
