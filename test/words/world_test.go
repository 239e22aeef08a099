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
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/await"
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
type world struct {
	*local.Cluster
	bin    string
	client kubernetes.Interface
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

// sharedWorld is the cluster that most tests share, with the kinds of KAI and Volcano.
func sharedWorld(t *testing.T) *world {
	t.Helper()
	bin := binDir(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.world == nil && shared.err == nil {
		shared.world, shared.err = startWorld(bin, manifest(t, "crds.yaml"))
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.world
}

// ownWorld is a cluster for one test alone.
func ownWorld(t *testing.T, more ...[]byte) *world {
	t.Helper()
	w, err := startWorld(binDir(t), more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Discard(); err != nil {
			t.Error(err)
		}
		if !t.Failed() {
			_ = os.RemoveAll(w.Dir())
		}
	})
	return w
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

// binDir is where the programs are; the test is skipped when they are not.
func binDir(t *testing.T) string {
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
	if err != nil {
		if given {
			t.Fatal(err) // make has built them: a skip would hide a broken build
		}
		t.Skipf("skipped: %v", err)
	}
	return dir
}

// startWorld starts a cluster and applies more manifests than Tangram's own.
func startWorld(bin string, more ...[]byte) (w *world, err error) {
	dir, err := os.MkdirTemp("", "tangram-words-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cluster, err := local.Start(ctx, local.Options{Dir: dir, Bin: bin, ControllerManager: true, KWOK: true})
	if err != nil {
		return nil, err
	}
	w = &world{Cluster: cluster, bin: bin}
	defer func() {
		if err != nil {
			_ = cluster.Stop()
		}
	}()
	if w.client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return nil, err
	}
	for _, doc := range append([][]byte{config.CRDs(), config.VolcanoCRDs(), config.RBAC(), config.ControllerRBAC(), config.AgentRBAC()}, more...) {
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
	if err := w.program(ctx, "gpu-scheduler", func(port int, kubeconfig string) []string {
		return append(cluster.ServeArgs(port, kubeconfig), "--leader-elect=false")
	}); err != nil {
		return nil, err
	}
	return w, w.program(ctx, "gpu-controller", func(port int, kubeconfig string) []string {
		return append(cluster.ListenArgs(port), "--kubeconfig="+kubeconfig, "--leader-elect=false")
	})
}

// program starts a program of ours as the user it has.
func (w *world) program(ctx context.Context, name string, args func(port int, kubeconfig string) []string) error {
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
	_, err = w.Run(ctx, local.Program{Name: name, Path: filepath.Join(w.bin, name), Args: args(port, kubeconfig), Ready: ready})
	return err
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
	if _, err := w.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
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
	_ = w.client.BatchV1().Jobs(namespace).DeleteCollection(ctx, all, metav1.ListOptions{})
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		_ = w.client.CoreV1().Pods(namespace).DeleteCollection(ctx, all, metav1.ListOptions{})
		if list, err := w.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{}); err == nil && len(list.Items) == 0 {
			return
		}
	}
	t.Errorf("pods of %s are not gone", namespace)
}

// pods are those of a namespace whose names begin with a prefix.
func (w *world) pods(t *testing.T, namespace, prefix string) (out []v1.Pod) {
	t.Helper()
	list, err := w.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
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
				waits = p.Name + ": " + message(&p)
			}
		}
		return len(out) == count, fmt.Sprintf("%d are; %s", len(out), waits)
	})
	return out
}

// says waits until a pod's condition contains a text.
func (w *world) says(t *testing.T, namespace, name, text string) {
	t.Helper()
	w.eventually(t, fmt.Sprintf("pod %s says %q", name, text), func() (bool, string) {
		p, err := w.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		if p.Spec.NodeName != "" {
			return false, "it is bound to " + p.Spec.NodeName
		}
		return strings.Contains(message(p), text), message(p)
	})
}

// message is what a pod's condition says about its scheduling.
func message(p *v1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c.Message
		}
	}
	return ""
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
	list, err := w.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
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
