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

	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/internal/podrun"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

const (
	root      = "../.."
	chartDir  = root + "/charts/gpu-scheduler"
	localFile = chartDir + "/ci/local.yaml"
	namespace = "tangram-system"
	release   = "gpu-scheduler"
)

// runHelm runs helm apart from the user's own configuration.
func runHelm(t *testing.T, kubeconfig string, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(cluster.Programs(t, "helm"), "helm"), args...)
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
	*cluster.Cluster
	t     *testing.T
	fleet *fleet.Fleet
}

// newWorld starts a cluster with the nodes of a fleet file and one node for our own pods.
func newWorld(t *testing.T, fleetText string, apiServer ...string) *world {
	t.Helper()
	bin := cluster.Bin(t, "helm", "kube-controller-manager", "kube-scheduler", "kwok", "gpu-scheduler", "gpu-controller", "gpu-agent", "gpu-extender")
	w := &world{t: t, Cluster: cluster.ForTest(t, cluster.Options{
		Kubernetes: local.Options{Bin: bin, ControllerManager: true, KubeScheduler: true, KWOK: true, APIServer: apiServer},
	})}
	var err error
	if w.fleet, err = fleet.Parse("fleet.yaml", []byte(fleetText)); err != nil {
		t.Fatal(err)
	}
	if err := w.CreateNodes(t.Context(), w.fleet); err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	runner, err := podrun.Start(life, podrun.Options{Cluster: w.Cluster.Cluster, Name: "tangram-runner", Bin: bin})
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
	await.Eventually(w.t, what, limit*await.Patience, holds)
}

// pod waits until a pod of the default namespace is as wanted.
func (w *world) pod(name, what string, holds func(*v1.Pod) bool) {
	w.t.Helper()
	w.eventually("pod "+name+" "+what, 30*time.Second, func() (bool, string) {
		p, err := w.Client.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return holds(p), fmt.Sprintf("%s on %q: %+v", p.Status.Phase, p.Spec.NodeName, p.Status.Conditions)
	})
}

func isBound(p *v1.Pod) bool { return p.Spec.NodeName != "" }
