// Package chart tests charts/gpu-scheduler and what is released with it: what helm makes
// of values, what an installation does on a real API server, and that no component has a
// right too many or too few.
//
// Installations are those of docs/guides/install.md: helm as a child process, a cluster as
// `tangram up --bare` has it, pods that run as processes with the chart's flags and a token
// of the chart's ServiceAccount (lab/podrun).
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

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/lab/podrun"
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
func runHelm(t testing.TB, kubeconfig string, args ...string) (stdout string, err error) {
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
	*cluster.World
	fleet *fleet.Fleet
}

// newWorld starts a cluster with the nodes of a fleet file and one node for our own pods.
func newWorld(t *testing.T, fleetText string, apiServer ...string) *world {
	t.Helper()
	w := &world{World: cluster.ForTest(t, cluster.Options{
		Programs:   []string{"helm", "gpu-scheduler", "gpu-controller", "gpu-agent", "gpu-extender"},
		Kubernetes: local.Options{ControllerManager: true, KubeScheduler: true, KWOK: true, APIServer: apiServer},
	})}
	var err error
	w.fleet, err = fleet.Parse("fleet.yaml", []byte(fleetText))
	w.Must(err)
	w.Must(w.CreateNodes(t.Context(), w.fleet))
	life, end := context.WithCancel(context.Background())
	runner, err := podrun.Start(life, podrun.Options{Cluster: w.Cluster.Cluster, Name: "tangram-runner", Bin: w.Bin})
	if err != nil {
		end()
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the cluster's
		end()
		runner.Wait()
	})
	file := filepath.Join(runner.Root(), "etc/tangram/fleet.yaml")
	w.Must(os.MkdirAll(filepath.Dir(file), 0o700))
	w.Must(os.WriteFile(file, []byte(fleetText), 0o600))
	return w
}

// helm runs helm against the cluster and fails the test with it.
func (w *world) helm(args ...string) string {
	w.T.Helper()
	out, err := runHelm(w.T, w.Kubeconfig(), args...)
	w.Must(err)
	return out
}

// install is the documented command, with more flags.
func (w *world) install(chart string, flags ...string) {
	w.T.Helper()
	w.helm(append([]string{"install", release, chart, "-f", localFile, "--namespace", namespace, "--create-namespace", "--wait", "--timeout", "2m"}, flags...)...)
}

// apply applies a file of testdata.
func (w *world) apply(file string) {
	w.T.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	w.Must(err)
	w.Apply(string(data))
}

// pod waits until a pod of the default namespace is as wanted.
func (w *world) pod(name, what string, holds func(*v1.Pod) bool) {
	w.T.Helper()
	w.Eventually("pod "+name+" "+what, func() (bool, string) {
		p := w.Find(name)
		if p == nil {
			return false, "no such pod"
		}
		return holds(p), fmt.Sprintf("%s on %q: %+v", p.Status.Phase, p.Spec.NodeName, p.Status.Conditions)
	})
}

func isBound(p *v1.Pod) bool { return p.Spec.NodeName != "" }
