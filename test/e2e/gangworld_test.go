package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
)

// newGangWorld is a control plane with the kinds gangs and queues come from, and
// nodes, but no scheduler yet.
func newGangWorld(t *testing.T, o local.Options, fleet string) *world {
	t.Helper()
	w := startWorld(t, o, config.RBAC(), config.CRDs(), config.VolcanoCRDs())
	w.fleet(fleet)
	return w
}

// gangLabels makes a pod a member of a gang by labels.
func gangLabels(gang string, size any) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = gang, fmt.Sprint(size)
	}
}

// annotated puts an annotation on a pod, labelled a label.
func annotated(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations[key] = value }
}

func labelled(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Labels[key] = value }
}

// inQueue puts a pod into a queue.
func inQueue(queue string) func(*v1.Pod) { return labelled(names.LabelQueue, queue) }

// ofPriority gives a pod a PriorityClass.
func ofPriority(class string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.PriorityClassName = class }
}

// createGang creates a gang of n pods by labels, named gang-0 and so on.
func (w *world) createGang(gang string, n, gpus int, change ...func(*v1.Pod)) {
	w.t.Helper()
	for i := range n {
		w.create(pod(fmt.Sprintf("%s-%d", gang, i), gpus, append([]func(*v1.Pod){gangLabels(gang, n)}, change...)...))
	}
}

// gangNodes waits until all pods with a prefix are bound, and counts them by node.
func (w *world) gangNodes(prefix string, n int, limit time.Duration) map[string]int {
	w.t.Helper()
	var nodes map[string]int
	w.eventually(fmt.Sprintf("%d pods %s* are bound", n, prefix), limit, func() (bool, string) {
		nodes = map[string]int{}
		seen, bound := "", 0
		for _, p := range w.pods() {
			if !strings.HasPrefix(p.Name, prefix) {
				continue
			}
			if p.Spec.NodeName != "" {
				nodes[p.Spec.NodeName]++
				bound++
			} else if seen == "" {
				seen = p.Name + " " + waitsFor(&p)
			}
		}
		return bound == n, fmt.Sprintf("%d bound; %s", bound, seen)
	})
	return nodes
}

// noneBound checks for a while that no pod with a prefix gets bound.
func (w *world) noneBound(prefix string, during time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, p := range w.pods() {
			if strings.HasPrefix(p.Name, prefix) && p.Spec.NodeName != "" {
				w.t.Fatalf("pod %s is bound to %s", p.Name, p.Spec.NodeName)
			}
		}
	}
}

// notShown checks that a pod is not shown to an autoscaler as unschedulable. Autoscalers
// look for that reason alone: a condition with another one is for people.
func (w *world) notShown(name string) {
	w.t.Helper()
	if c := scheduled(w.get(name)); c.Reason == v1.PodReasonUnschedulable {
		w.t.Errorf("pod %s is shown to autoscalers: %s", name, c.Message)
	}
}

// priorityClass makes a PriorityClass.
func (w *world) priorityClass(name string, value int, more string) {
	w.t.Helper()
	w.apply(fmt.Sprintf("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: %s}, value: %d%s}", name, value, more))
}

// queueOf makes a Queue; spec is a YAML flow mapping.
func (w *world) queueOf(name, spec string) {
	w.t.Helper()
	w.apply(fmt.Sprintf("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: %s}, spec: %s}", name, spec))
}

// follow watches all pods; each change is given to see, in the order the API server
// made them. The lister is up to date when see is called.
func (w *world) follow(ctx context.Context, see func(before, after *v1.Pod)) corelisters.PodLister {
	w.t.Helper()
	factory := informers.NewSharedInformerFactory(w.client, 0)
	informer := factory.Core().V1().Pods()
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { see(nil, o.(*v1.Pod)) },
		UpdateFunc: func(o, n any) { see(o.(*v1.Pod), n.(*v1.Pod)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			see(o.(*v1.Pod), nil)
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return informer.Lister()
}

// gangOf is the gang a test gave a pod by label; empty for others.
func gangOf(p *v1.Pod) string { return p.Labels[names.LabelGang] }

// live says whether a pod holds or wants devices.
func live(p *v1.Pod) bool {
	return p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed
}

// finish makes a pod succeed, as if its containers had ended well.
func (w *world) finish(p *v1.Pod) error {
	patch := []byte(`{"status":{"phase":"Succeeded"}}`)
	_, err := w.client.CoreV1().Pods(p.Namespace).Patch(context.Background(), p.Name, "application/merge-patch+json", patch, metav1.PatchOptions{}, "status")
	return err
}

// allPods lists what a lister knows, by name.
func allPods(l corelisters.PodLister) []*v1.Pod {
	pods, _ := l.List(labels.Everything()) // a store knows no error
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
