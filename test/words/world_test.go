// Package words tests that manifests written for other schedulers run unchanged, on a real
// API server: KAI's, Volcano's, HAMi's, Koordinator's and Kueue's, side by side in one tree
// of queues. What cannot be given is refused by the field that asks for it.
package words

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

//go:embed testdata
var manifests embed.FS

// patience is how long something may take that happens within a second on a quiet machine.
const patience = 2 * time.Minute

// nodes is the cluster: 8 nodes with 8 GPUs each, two to a rack.
const nodes = `
pools:
- {name: n, count: 8, gpu: {model: A100-80GB, count: 8}, rack: {size: 2}}
`

// world is a control plane with Tangram on it.
type world struct{ *cluster.World }

var shared cluster.Shared[*world]

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// sharedWorld is the cluster that most tests share, with the kinds of KAI and Volcano.
func sharedWorld(t *testing.T) *world {
	t.Helper()
	w := shared.Get(t, func() *world { return &world{cluster.Open(t, cluster.Whole(nodes, manifest(t, "crds.yaml")))} })
	return &world{w.In(t)}
}

// ownWorld is a cluster for one test alone.
func ownWorld(t *testing.T, more ...[]byte) *world {
	t.Helper()
	return &world{cluster.ForTest(t, cluster.Whole(nodes, more...))}
}

// manifest is a file of testdata.
func manifest(t *testing.T, name string) []byte {
	t.Helper()
	text, err := manifests.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// apply applies manifests.
func (w *world) apply(t *testing.T, doc []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.ApplyManifests(ctx, doc); err != nil {
		t.Fatal(err)
	}
}

// namespace makes a namespace for one test, which is deleted with its pods.
func (w *world) namespace(t *testing.T, name string) {
	t.Helper()
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := w.Client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.clear(t, name) })
}

// clear deletes all pods and Jobs of a namespace and waits until the pods are gone.
func (w *world) clear(t *testing.T, namespace string) {
	t.Helper()
	ctx := context.Background()
	now, background := int64(0), metav1.DeletePropagationBackground
	all := metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background}
	_ = w.Client.BatchV1().Jobs(namespace).DeleteCollection(ctx, all, metav1.ListOptions{})
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		_ = w.Client.CoreV1().Pods(namespace).DeleteCollection(ctx, all, metav1.ListOptions{})
		if list, err := w.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{}); err == nil && len(list.Items) == 0 {
			return
		}
	}
	t.Errorf("pods of %s are not gone", namespace)
}

// pods are those of a namespace whose names begin with a prefix.
func (w *world) pods(t *testing.T, namespace, prefix string) (out []v1.Pod) {
	t.Helper()
	list, err := w.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if strings.HasPrefix(p.Name, prefix) {
			out = append(out, p)
		}
	}
	return out
}

// bound waits until so many pods with a prefix exist and are bound, and returns them.
func (w *world) bound(t *testing.T, namespace, prefix string, count int) (out []v1.Pod) {
	t.Helper()
	w.eventually(t, fmt.Sprintf("%d pods %s* are bound", count, prefix), func() (bool, string) {
		out = nil
		waits := ""
		for _, p := range w.pods(t, namespace, prefix) {
			if p.Spec.NodeName != "" {
				out = append(out, p)
			} else {
				waits = p.Name + ": " + cluster.Scheduled(&p).Message
			}
		}
		return len(out) == count, fmt.Sprintf("%d are; %s", len(out), waits)
	})
	return out
}

// says waits until a pod's condition contains a text.
func (w *world) says(t *testing.T, namespace, name, text string) {
	t.Helper()
	w.In(t).Within(namespace).Waits(name, text)
}

// eventually waits until something holds.
func (w *world) eventually(t *testing.T, what string, holds func() (bool, string)) {
	t.Helper()
	if ok, last := await.Until(patience, holds); !ok {
		t.Fatalf("not within %s: %s; last: %s (logs: %s)", patience, what, last, filepath.Join(w.Dir(), "logs"))
	}
}

// never checks that no device is given twice: what all records give of a device is at most
// the device. It returns how many pods have a record.
func (w *world) never(t *testing.T) (records int) {
	t.Helper()
	const memory = 81920
	whole, shared := map[string][]string{}, map[string]int64{}
	list, err := w.Client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		text, ok := p.Annotations[names.AnnotationDevices]
		if !ok || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		records++
		rec, err := record.Decode(text)
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		for _, c := range rec.Containers {
			for _, d := range c.Devices {
				at := fmt.Sprintf("%s/%d", rec.Node, d.Index)
				if d.MemoryMiB == 0 && d.ComputeMilli == 0 {
					whole[at] = append(whole[at], p.Name)
				}
				shared[at] += d.MemoryMiB
			}
		}
	}
	for at, pods := range whole {
		if len(pods) > 1 || shared[at] > 0 {
			t.Errorf("device %s is given to %v, and %d MiB of it to others", at, pods, shared[at])
		}
	}
	for at, mib := range shared {
		if mib > memory {
			t.Errorf("%d MiB of device %s are given", mib, at)
		}
	}
	return records
}
