package state

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

const schedulerUser = "system:tangram:gpu-scheduler"

// world is a control plane with Tangram's kinds and rights, and a fleet.
type world struct {
	*cluster.Cluster
	t    *testing.T
	runs int
}

// newWorld starts a control plane and creates nodes. Tests of more than the scheduler name
// its other programs.
func newWorld(t *testing.T, pools string, programs ...string) *world {
	t.Helper()
	return &world{t: t, Cluster: cluster.ForTest(t, cluster.Options{
		Kubernetes: local.Options{Bin: cluster.Bin(t, append(programs, "gpu-scheduler")...)},
		Manifests:  [][]byte{config.RBAC(), config.CRDs(), config.VolcanoCRDs()},
		Fleet:      "pools: " + pools,
	})}
}

// apply applies manifests.
func (w *world) apply(docs string) {
	w.t.Helper()
	if err := w.ApplyManifests(context.Background(), []byte(docs)); err != nil {
		w.t.Fatal(err)
	}
}

// arguments is the default configuration with more arguments of GPUQueue, as YAML lines.
func arguments(lines ...string) []byte {
	const before = "      preemption: true\n"
	text := string(config.Scheduler())
	at := strings.Index(text, before) + len(before)
	return []byte(text[:at] + "      " + strings.Join(lines, "\n      ") + "\n" + text[at:])
}

// scheduler starts gpu-scheduler with a configuration and more flags; by default without
// leader election.
func (w *world) scheduler(configuration []byte, flags ...string) *local.Process {
	w.t.Helper()
	w.runs++
	if len(flags) == 0 {
		flags = []string{cluster.Alone}
	}
	return w.launch(local.Component{Name: "gpu-scheduler", As: fmt.Sprintf("gpu-scheduler-%d", w.runs), Config: configuration, Flags: flags})
}

// launch starts a program of ours and waits until it is healthy.
func (w *world) launch(p local.Component) *local.Process {
	w.t.Helper()
	started, err := w.Launch(context.Background(), p)
	if err != nil {
		w.t.Fatal(err)
	}
	return started.Process
}

// pod is a pod that asks for GPUs, in a queue.
func pod(name, queue string, gpus int64) *v1.Pod {
	return cluster.Pod("default", name, gpus, cluster.Label(names.LabelQueue, queue))
}

func (w *world) create(p *v1.Pod) {
	w.t.Helper()
	w.Create(w.t, p)
}

func (w *world) delete(name string) error {
	now := int64(0)
	return w.Client.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

// bound waits until a pod is bound.
func (w *world) bound(name string) {
	w.t.Helper()
	w.Bound(w.t, 30*time.Second*await.Patience, "default", name)
}

// eventually waits until a condition holds; it says what was last seen when it never does.
func (w *world) eventually(what string, limit time.Duration, holds func() (bool, string)) {
	w.t.Helper()
	await.Eventually(w.t, what, limit*await.Patience, holds)
}

// state is the ConfigMap with the state.
func (w *world) state() *v1.ConfigMap {
	w.t.Helper()
	object, err := w.Client.CoreV1().ConfigMaps("kube-system").Get(context.Background(), names.StateName, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return object
}

// setState replaces the state; empty: there is none.
func (w *world) setState(text string) {
	w.t.Helper()
	object := w.state()
	object.Data = map[string]string{"state.json": text}
	if text == "" {
		object.Data = nil
	}
	if _, err := w.Client.CoreV1().ConfigMaps("kube-system").Update(context.Background(), object, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// logged are the lines of a process's log with some words.
func logged(t *testing.T, p *local.Process, words string) (out []string) {
	t.Helper()
	data, err := os.ReadFile(p.Log())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, words) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}
