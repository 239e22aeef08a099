// Package chart tests charts/gpu-scheduler and what is released with it: what helm makes
// of values, what an installation does on a real API server, and that no component has a
// right too many or too few.
//
// Installations are those of docs/guides/install.md: helm as a child process, a cluster as
// `tangram up --bare` has it, pods that run as processes with the chart's flags and a token
// of the chart's ServiceAccount (internal/podrun).
package chart

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/internal/podrun"
	"github.com/tangram-dev/tangram/test/await"
)

const (
	root      = "../.."
	chartDir  = root + "/charts/gpu-scheduler"
	localFile = chartDir + "/ci/local.yaml"
	namespace = "tangram-system"
	release   = "gpu-scheduler"
)

// programs finds the folder of programs; the test is skipped when some are not built.
func programs(t *testing.T, names ...string) string {
	t.Helper()
	dir := os.Getenv("TANGRAM_BIN")
	if dir == "" {
		dir = root + "/bin"
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := local.RequirePrograms(dir, names...); err != nil {
		if os.Getenv("TANGRAM_BIN") != "" {
			t.Fatal(err) // make has built them: a skip would hide a broken build
		}
		t.Skipf("skipped: %v", err)
	}
	return dir
}

// runHelm runs helm apart from the user's own configuration.
func runHelm(t *testing.T, kubeconfig string, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs(t, "helm"), "helm"), args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, problems.String())
	}
	return out.String(), nil
}

// world is one cluster without Tangram, as tangram up --bare starts it.
type world struct {
	*local.Cluster
	t       *testing.T
	client  kubernetes.Interface
	dynamic dynamic.Interface
	bin     string
	fleet   *fleet.Fleet
}

// newWorld starts a cluster with the nodes of a fleet file and one node for our own pods.
func newWorld(t *testing.T, fleetText string, apiServer ...string) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short, and this test starts a control plane")
	}
	bin := programs(t, "helm", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "gpu-scheduler", "gpu-controller", "gpu-agent", "gpu-extender")
	ctx := t.Context()
	cluster, err := local.Start(ctx, local.Options{
		Dir: t.TempDir(), Bin: bin, ControllerManager: true, KubeScheduler: true, KWOK: true, APIServer: apiServer,
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Cluster: cluster, t: t, bin: bin}
	t.Cleanup(w.stop)
	if w.client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	if w.dynamic, err = dynamic.NewForConfig(cluster.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	if w.fleet, err = fleet.Parse("fleet.yaml", []byte(fleetText)); err != nil {
		t.Fatal(err)
	}
	if err := cluster.CreateNodes(ctx, w.fleet); err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	runner, err := podrun.Start(life, podrun.Options{Cluster: cluster, Name: "tangram-runner", Bin: bin})
	if err != nil {
		end()
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the cluster's
		end()
		runner.Wait()
	})
	file := filepath.Join(runner.Root(), "etc/tangram/fleet.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(fleetText), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) stop() {
	if w.t.Failed() {
		for _, p := range w.Processes() {
			if strings.HasPrefix(p.Name(), "gpu-") {
				w.t.Logf("%s:\n%s", p.Name(), tail(p.Log(), 15))
			}
		}
	}
	if err := w.Stop(); err != nil {
		w.t.Error(err)
	}
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

// helm runs helm against the cluster and fails the test with it.
func (w *world) helm(args ...string) string {
	w.t.Helper()
	out, err := runHelm(w.t, w.Kubeconfig(), args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// install is the documented command, with more flags.
func (w *world) install(chart string, flags ...string) {
	w.t.Helper()
	w.helm(append([]string{"install", release, chart, "-f", localFile, "--namespace", namespace, "--create-namespace", "--wait", "--timeout", "2m"}, flags...)...)
}

// apply applies a file of testdata.
func (w *world) apply(file string) {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.ApplyManifests(w.t.Context(), data); err != nil {
		w.t.Fatal(err)
	}
}

// eventually waits until a condition holds; it says what was last seen when it never
// does.
func (w *world) eventually(what string, limit time.Duration, holds func() (bool, string)) {
	w.t.Helper()
	limit *= await.Patience
	if ok, seen := await.Until(limit, holds); !ok {
		w.t.Fatalf("%s: not within %s; last seen: %s", what, limit, seen)
	}
}

// pod waits until a pod of the default namespace is as wanted.
func (w *world) pod(name, what string, holds func(*v1.Pod) bool) {
	w.t.Helper()
	w.eventually("pod "+name+" "+what, 30*time.Second, func() (bool, string) {
		p, err := w.client.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return holds(p), fmt.Sprintf("%s on %q: %+v", p.Status.Phase, p.Spec.NodeName, p.Status.Conditions)
	})
}

func isBound(p *v1.Pod) bool { return p.Spec.NodeName != "" }
