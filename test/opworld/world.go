// Package opworld is a cluster with Tangram and with operators of other projects, for the
// tests of Kueue, Kubeflow and MultiKueue: a real control plane, simulated nodes, the real
// operators as child processes.
package opworld

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/internal/operators"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

// World is one cluster.
type World struct {
	*cluster.Cluster
	T testing.TB
}

// Operator is one operator to run, with what is added to its configuration and arguments.
type Operator struct {
	Name, Config string
	Args         []string
}

// Options say what a cluster consists of.
type Options struct {
	// Fleet are its nodes, as a fleet file; none when empty.
	Fleet string
	// Operators start in this order, after the CRDs of all of them are there: Kueue asks at
	// its start which kinds exist.
	Operators []Operator
	// Bare: neither Tangram nor nodes, only the control plane and operators.
	Bare bool
	// Docs are applied before Tangram starts.
	Docs [][]byte
	// Scheduler is gpu-scheduler's configuration; the default one when empty.
	Scheduler []byte
}

// Start starts a cluster, which ends with the test.
func Start(t testing.TB, o Options) *World {
	t.Helper()
	bin := cluster.Bin(t, "kube-controller-manager", "kwok", "gpu-scheduler", "gpu-controller")
	for _, op := range o.Operators {
		cluster.Built(t, operators.Require(bin, op.Name))
	}
	docs := append([][]byte{config.CRDs(), config.VolcanoCRDs(), config.RBAC(), config.ControllerRBAC()}, o.Docs...)
	for _, op := range o.Operators { // before any operator starts, and before gpu-scheduler
		docs = append(docs, definitions(t, bin, op.Name))
	}
	options := cluster.Options{
		Kubernetes: local.Options{Bin: bin, ControllerManager: true, KWOK: !o.Bare},
		Manifests:  docs,
		Fleet:      o.Fleet,
	}
	if !o.Bare {
		options.Tangram = cluster.Tangram(o.Scheduler)
	}
	w := &World{cluster.ForTest(t, options), t}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, op := range o.Operators {
		w.Operator(ctx, op)
	}
	return w
}

// Operator starts one more operator.
func (w *World) Operator(ctx context.Context, op Operator) *local.Process {
	w.T.Helper()
	p, err := operators.Run(ctx, op.Name, operators.Options{Cluster: w.Cluster.Cluster, Bin: w.Bin, Config: op.Config, Args: op.Args})
	w.must(err)
	return p
}

// definitions are the plain CRDs among an operator's manifests, without conversion: their
// webhooks follow when the operator runs.
func definitions(t testing.TB, bin, operator string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(bin, "operators", operator+".crds.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, doc := range strings.Split("\n"+string(data), "\n---") {
		if strings.Contains(doc, "\nkind: CustomResourceDefinition") && !strings.Contains(doc, "\n  conversion:") {
			out = append(out, doc)
		}
	}
	return []byte(strings.Join(out, "\n---\n"))
}

func (w *World) must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// In is the world for a subtest.
func (w *World) In(t testing.TB) *World {
	sub := *w
	sub.T = t
	return &sub
}

// Apply applies manifests.
func (w *World) Apply(text string) {
	w.T.Helper()
	w.must(w.ApplyManifests(context.Background(), []byte(strings.ReplaceAll(text, "\t", "  "))))
}

// Guide are the manifests of a page of docs/guides, as people copy them.
func (w *World) Guide(page string) (manifests []string) {
	w.T.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", page))
	w.must(err)
	for _, block := range strings.Split(string(data), "```yaml\n")[1:] {
		if text, _, ok := strings.Cut(block, "```"); ok && strings.HasPrefix(text, "apiVersion:") {
			manifests = append(manifests, text)
		}
	}
	return manifests
}

// Delete deletes an object of the namespace default, and with it what it owns.
func (w *World) Delete(resource schema.GroupVersionResource, name string) {
	w.T.Helper()
	background := metav1.DeletePropagationBackground
	w.must(w.Dynamic.Resource(resource).Namespace("default").Delete(context.Background(), name, metav1.DeleteOptions{PropagationPolicy: &background}))
}

// Get is an object of the namespace default; nil when there is none.
func (w *World) Get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	o, err := w.Dynamic.Resource(resource).Namespace("default").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return o
}

// Condition is a condition of an object, as "Status Reason: Message"; empty without one.
func Condition(o *unstructured.Unstructured, kind string) string {
	if o == nil {
		return ""
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		if m, ok := c.(map[string]any); ok && m["type"] == kind {
			return fmt.Sprintf("%v %v: %v", m["status"], m["reason"], m["message"])
		}
	}
	return ""
}

// Set sets a field of an object to a value in YAML.
func Set(w *World, o *unstructured.Unstructured, text string, path ...string) {
	w.T.Helper()
	var value any
	w.must(yaml.Unmarshal([]byte(text), &value))
	w.must(unstructured.SetNestedField(o.Object, value, path...))
}

// Eventually waits until a condition holds, and says what was last seen when it never does.
func (w *World) Eventually(what string, limit time.Duration, holds func() (bool, string)) {
	w.T.Helper()
	await.Eventually(w.T, what, limit*await.Patience, holds)
}

// Pods are the pods of the namespace default with a label; all when the key is empty.
func (w *World) Pods(key, value string) []v1.Pod {
	w.T.Helper()
	selector := ""
	if key != "" {
		selector = key + "=" + value
	}
	list, err := w.Client.CoreV1().Pods("default").List(context.Background(), metav1.ListOptions{LabelSelector: selector})
	if err != nil && !meta.IsNoMatchError(err) {
		w.T.Fatal(err)
	}
	return list.Items
}

// Live says whether a pod wants or holds devices.
func Live(p *v1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed
}

// Waits is what a pod's PodScheduled condition says.
func Waits(p *v1.Pod) string {
	if c := cluster.Scheduled(p); c.Type != "" {
		return c.Reason + ": " + c.Message
	}
	return "no PodScheduled condition"
}

// Bound waits until exactly n live pods with a label exist and are bound, and counts them
// by node.
func (w *World) Bound(key, value string, n int) map[string]int {
	w.T.Helper()
	nodes := map[string]int{}
	w.Eventually(fmt.Sprintf("%d pods with %s=%s are bound", n, key, value), 90*time.Second, func() (bool, string) {
		clear(nodes)
		live, seen := 0, ""
		for _, p := range w.Pods(key, value) {
			switch {
			case !Live(&p):
			case p.Spec.NodeName != "":
				live++
				nodes[p.Spec.NodeName]++
			default:
				live++
				seen = fmt.Sprintf("%s (gates %v) %s", p.Name, p.Spec.SchedulingGates, Waits(&p))
			}
		}
		return live == n && seen == "", fmt.Sprintf("%d live; %s", live, seen)
	})
	return nodes
}

// WaitsFor waits until all of n live pods with a label say that they wait, with the words,
// and none is bound.
func (w *World) WaitsFor(key, value string, n int, words string) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("%d pods with %s=%s wait: %q", n, key, value, words), 90*time.Second, func() (bool, string) {
		waiting, seen := 0, ""
		for _, p := range w.Pods(key, value) {
			if !Live(&p) {
				continue
			}
			if p.Spec.NodeName != "" {
				w.T.Fatalf("%s is bound to %s and should wait", p.Name, p.Spec.NodeName)
			}
			if seen = Waits(&p); strings.Contains(seen, words) {
				waiting++
			}
		}
		return waiting == n, fmt.Sprintf("%d wait; %s", waiting, seen)
	})
}

// Gang is what a test calls pods that must start together.
type Gang struct {
	Name string
	Size int
}

// Whole waits until so many gangs are bound, each whole, and fails the test for a
// gang of which a part is bound for longer than bindings take.
func (w *World) Whole(running int, gangOf func(*v1.Pod) Gang) []string {
	w.T.Helper()
	const patience = 10 * time.Second // for the last binding, on a busy machine
	partial := map[string]time.Time{}
	var whole []string
	w.Eventually(fmt.Sprintf("%d gangs run, whole", running), 90*time.Second, func() (bool, string) {
		bound, size := map[string]int{}, map[string]int{}
		for _, p := range w.Pods("", "") {
			if g := gangOf(&p); g.Name != "" && Live(&p) {
				size[g.Name] = g.Size
				if p.Spec.NodeName != "" {
					bound[g.Name]++
				}
			}
		}
		whole = whole[:0]
		settled := true
		for _, name := range slices.Sorted(maps.Keys(size)) {
			if n := bound[name]; n == 0 || n == size[name] {
				delete(partial, name)
				if n > 0 {
					whole = append(whole, name)
				}
				continue
			}
			settled = false
			if since, ok := partial[name]; !ok {
				partial[name] = time.Now()
			} else if time.Since(since) > patience {
				w.T.Fatalf("half a gang: %d of %d pods of %s are bound for %s", bound[name], size[name], name, time.Since(since))
			}
		}
		return settled && len(whole) >= running, fmt.Sprintf("whole: %v; bound: %v", whole, bound)
	})
	return whole
}
