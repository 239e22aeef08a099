package state

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/await"
)

const schedulerUser = "system:tangram:gpu-scheduler"

// world is a control plane with Tangram's kinds and rights, and a fleet.
type world struct {
	*local.Cluster
	t      *testing.T
	client kubernetes.Interface
	runs   int
}

// binDir is where the programs are; the test is skipped when they are not.
func binDir(t *testing.T, programs ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short, and this test starts a control plane")
	}
	dir := os.Getenv("TANGRAM_BIN")
	if dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(wd, "..", "..", "bin")
	}
	if err := local.RequirePrograms(dir, append([]string{"etcd", "kube-apiserver", "gpu-scheduler"}, programs...)...); err != nil {
		if os.Getenv("TANGRAM_BIN") != "" {
			t.Fatal(err) // make has built them: a skip would hide a broken build
		}
		t.Skipf("skipped: %v", err)
	}
	return dir
}

// newWorld starts a control plane and creates nodes.
func newWorld(t *testing.T, pools string) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cluster, err := local.Start(ctx, local.Options{Dir: t.TempDir(), Bin: binDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Cluster: cluster, t: t}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range cluster.Processes() {
				if strings.HasPrefix(p.Name(), "gpu-") {
					t.Logf("%s:\n%s", p.Name(), tail(p.Log(), 20))
				}
			}
		}
		if err := cluster.Discard(); err != nil {
			t.Error(err)
		}
	})
	if w.client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	for _, docs := range [][]byte{config.RBAC(), config.CRDs(), config.VolcanoCRDs()} {
		if err := cluster.ApplyManifests(ctx, docs); err != nil {
			t.Fatal(err)
		}
	}
	f, err := fleet.Parse("fleet.yaml", []byte("pools: "+pools))
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.CreateFleet(ctx, f); err != nil {
		t.Fatal(err)
	}
	return w
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
	name := fmt.Sprintf("gpu-scheduler-%d", w.runs)
	file := filepath.Join(w.Dir(), name+".yaml")
	if err := os.WriteFile(file, configuration, 0o600); err != nil {
		w.t.Fatal(err)
	}
	kubeconfig, err := w.KubeconfigFor(schedulerUser)
	if err != nil {
		w.t.Fatal(err)
	}
	port, err := local.FreePort()
	if err != nil {
		w.t.Fatal(err)
	}
	if len(flags) == 0 {
		flags = []string{"--leader-elect=false"}
	}
	return w.run(name, "gpu-scheduler", port, append(append(w.ServeArgs(port, kubeconfig), "--config="+file), flags...))
}

// run starts a program and waits until it is healthy.
func (w *world) run(name, program string, port int, args []string) *local.Process {
	w.t.Helper()
	ready, err := w.ReadyAt(port, "/healthz")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := w.Run(ctx, local.Program{Name: name, Path: filepath.Join(binDir(w.t), program), Args: args, Ready: ready})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// pod is a pod that asks for GPUs, in a queue.
func pod(name, queue string, gpus int64) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{names.LabelQueue: queue}},
		Spec: v1.PodSpec{
			SchedulerName: names.SchedulerName,
			Containers: []v1.Container{{
				Name: "main", Image: "pause",
				Resources: v1.ResourceRequirements{Limits: v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(gpus, resource.DecimalSI)}},
			}},
		},
	}
}

func (w *world) create(p *v1.Pod) {
	w.t.Helper()
	if _, err := w.client.CoreV1().Pods(p.Namespace).Create(context.Background(), p, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(name string) error {
	now := int64(0)
	return w.client.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

// bound waits until a pod is bound.
func (w *world) bound(name string) {
	w.t.Helper()
	w.eventually("pod "+name+" is bound", 30*time.Second, func() (bool, string) {
		p, err := w.client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
		return err == nil && p.Spec.NodeName != "", fmt.Sprint(err)
	})
}

// eventually waits until a condition holds; it says what was last seen when it never does.
func (w *world) eventually(what string, limit time.Duration, holds func() (bool, string)) {
	w.t.Helper()
	limit *= await.Patience
	if ok, seen := await.Until(limit, holds); !ok {
		w.t.Fatalf("%s: not within %s; last seen: %s", what, limit, seen)
	}
}

// state is the ConfigMap with the state.
func (w *world) state() *v1.ConfigMap {
	w.t.Helper()
	object, err := w.client.CoreV1().ConfigMaps("kube-system").Get(context.Background(), names.StateName, metav1.GetOptions{})
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
	if _, err := w.client.CoreV1().ConfigMaps("kube-system").Update(context.Background(), object, metav1.UpdateOptions{}); err != nil {
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

// tail is the end of a file.
func tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
