// Package e2e tests Tangram on a real API server: etcd and kube-apiserver as
// child processes, gpu-scheduler as its users run it.
//
// Every test has a control plane of its own and mostly waits, so tests call t.Parallel;
// those that compare times or measure shares do not, and run alone before the others.
// Tests named hole_* show faults that issue 9 lists: holes_open_test.go says which of
// them are still open.
package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

const schedulerUser = "system:tangram:gpu-scheduler"

// world is one control plane and what a test does to it.
type world struct {
	*cluster.Cluster
	t       *testing.T
	client  kubernetes.Interface
	dynamic dynamic.Interface
	runs    int
}

// binDir is where the programs are; the test is skipped when they are not.
func binDir(t *testing.T) string {
	t.Helper()
	return cluster.Bin(t, "gpu-scheduler")
}

// newWorld starts a control plane with Tangram's permissions, and with its CRDs
// unless the test is about their absence.
func newWorld(t *testing.T, crds bool) *world {
	t.Helper()
	docs := [][]byte{config.RBAC()}
	if crds {
		docs = append(docs, config.CRDs())
	}
	return startWorld(t, local.Options{}, docs...)
}

// startWorld starts a control plane and applies manifests.
func startWorld(t *testing.T, o local.Options, docs ...[]byte) *world {
	t.Helper()
	o.Bin = binDir(t)
	c := cluster.ForTest(t, cluster.Options{Kubernetes: o, Manifests: docs})
	return &world{Cluster: c, t: t, client: c.Client, dynamic: c.Dynamic}
}

// fleet creates nodes, and GPUNodes where the API has them.
func (w *world) fleet(text string) {
	w.t.Helper()
	f, err := fleet.Parse("fleet.yaml", []byte(text))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.CreateFleet(context.Background(), f); err != nil {
		w.t.Fatal(err)
	}
}

// scheduler starts gpu-scheduler with a configuration (nil: the default) and more
// flags.
func (w *world) scheduler(configuration []byte, flags ...string) *local.Process {
	w.t.Helper()
	p, _ := w.schedulerAt(configuration, flags...)
	return p
}

// schedulerAt is scheduler; it also returns the port of its metrics.
func (w *world) schedulerAt(configuration []byte, flags ...string) (*local.Process, int) {
	w.t.Helper()
	if configuration == nil {
		configuration = config.Scheduler()
	}
	if len(flags) == 0 {
		flags = []string{cluster.Alone}
	}
	p := w.launch(local.Component{Name: "gpu-scheduler", Config: configuration, Flags: flags})
	return p.Process, p.Port
}

// launch starts a program of ours beside those of its name that run.
func (w *world) launch(c local.Component) *local.Serving {
	w.t.Helper()
	w.runs++
	c.As = fmt.Sprintf("%s-%d", c.Name, w.runs)
	p, err := w.Launch(context.Background(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// pod is a pod that asks for GPUs; change may make it anything else.
func pod(name string, gpus int, change ...func(*v1.Pod)) *v1.Pod {
	return cluster.Pod("default", name, int64(gpus), change...)
}

func (w *world) create(p *v1.Pod) *v1.Pod {
	w.t.Helper()
	return w.Create(w.t, p)
}

// gone deletes a pod at once; without kubelets nobody else would.
func (w *world) gone(name string) {
	w.t.Helper()
	w.Delete(w.t, "default", name)
}

func (w *world) get(name string) *v1.Pod {
	w.t.Helper()
	return w.Get(w.t, "default", name)
}

func (w *world) pods() []v1.Pod {
	w.t.Helper()
	list, err := w.client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// eventually waits until a condition holds; it says what was last seen when it
// never does.
func (w *world) eventually(what string, limit time.Duration, holds func() (bool, string)) {
	w.t.Helper()
	await.Eventually(w.t, what, limit*await.Patience, holds)
}

// bound waits until a pod is placed and returns its node and record.
func (w *world) bound(name string) (string, record.Record) {
	w.t.Helper()
	var p *v1.Pod
	w.eventually("pod "+name+" bound", 20*time.Second, func() (bool, string) {
		p = w.get(name)
		return p.Spec.NodeName != "", waitsFor(p)
	})
	rec, err := record.Decode(p.Annotations[names.AnnotationDevices])
	if err != nil {
		w.t.Fatalf("pod %s: %v", name, err)
	}
	return p.Spec.NodeName, rec
}

// waits waits until the scheduler says of a pod why it cannot place it.
func (w *world) waits(name string, reasons ...string) {
	w.t.Helper()
	w.eventually("pod "+name+" waits for "+strings.Join(reasons, ", "), 20*time.Second, func() (bool, string) {
		seen := waitsFor(w.get(name))
		for _, r := range reasons {
			if !strings.Contains(seen, r) {
				return false, seen
			}
		}
		return true, seen
	})
}

// waitsFor is what the pod's PodScheduled condition says.
func waitsFor(p *v1.Pod) string {
	if c := cluster.Scheduled(p); c.Type != "" {
		return string(c.Status) + ": " + c.Message
	}
	return "no PodScheduled condition"
}

// event waits for an event about an object that has the words in its note.
func (w *world) event(kind, name string, words ...string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("event on %s %s with %q", kind, name, words), 20*time.Second, func() (bool, string) {
		list, err := w.client.EventsV1().Events("").List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		var seen []string
		for _, e := range list.Items {
			if e.Regarding.Kind != kind || e.Regarding.Name != name {
				continue
			}
			seen = append(seen, e.Note)
			all := true
			for _, word := range words {
				all = all && strings.Contains(e.Note, word)
			}
			if all {
				return true, ""
			}
		}
		return false, strings.Join(seen, "; ")
	})
}

// checkRecords fails the test unless every bound GPU pod has a valid record and
// no device is held by two live pods. It returns how many devices are held.
func (w *world) checkRecords() int {
	w.t.Helper()
	holder := map[string]string{}
	for _, p := range w.pods() {
		if p.Spec.NodeName == "" || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		rec, err := record.Decode(p.Annotations[names.AnnotationDevices])
		if err != nil {
			w.t.Errorf("pod %s: %v", p.Name, err)
			continue
		}
		if rec.Node != p.Spec.NodeName {
			w.t.Errorf("pod %s is bound to %s, recorded on %s", p.Name, p.Spec.NodeName, rec.Node)
		}
		for _, c := range rec.Containers {
			for _, d := range c.Devices {
				key := fmt.Sprintf("%s/%d", rec.Node, d.Index)
				if other, taken := holder[key]; taken && other != p.Name && d.MemoryMiB == 0 && d.MIG == "" {
					w.t.Errorf("device %s is held by %s and %s", key, other, p.Name)
				}
				holder[key] = p.Name
			}
		}
	}
	return len(holder)
}
