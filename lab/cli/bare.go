package cli

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/lab/podrun"
)

// runnerNode runs Tangram's own pods in a cluster of up --bare.
const runnerNode = "tangram-runner"

// bareFleetFile is where the node has the fleet: agents that are installed with
// charts/gpu-scheduler/ci/local.yaml read it.
const bareFleetFile = "etc/tangram/fleet.yaml"

// startBare brings up a cluster without anything of Tangram's: a control plane,
// kube-scheduler, simulated GPU nodes that nothing describes, and a node on which the
// pods of an installation run as processes.
func (s *session) startBare(ctx context.Context) error {
	begin := time.Now()
	nodes, err := s.loadFleet()
	if err != nil {
		return err
	}
	if err := local.RequirePrograms(s.options.bin, schedulerProgram, controllerProgram, agentProgram, "kubectl"); err != nil {
		return err
	}
	cluster, err := local.Start(ctx, local.Options{
		Dir: s.options.dir, Bin: s.options.bin, Out: s.out, ControllerManager: true, KubeScheduler: true, KWOK: true,
	})
	if err != nil {
		return err
	}
	s.cluster = cluster
	if err := cluster.CreateNodes(ctx, nodes.Fleet); err != nil {
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	runner, err := podrun.Start(life, podrun.Options{Cluster: cluster, Name: runnerNode, Bin: s.options.bin})
	if err != nil {
		end()
		return err
	}
	s.beforeStop = func() {
		end()
		runner.Wait()
	}
	file := filepath.Join(runner.Root(), bareFleetFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(file, nodes.file, 0o600); err != nil {
		return err
	}
	if err := s.keepFleet(); err != nil {
		return err
	}
	s.say("\nA cluster without Tangram is up (%s): %s.", local.Elapsed(begin), nodes.Fleet)
	helm := "helm"
	if local.RequirePrograms(s.options.bin, "helm") == nil {
		helm = short(filepath.Join(s.options.bin, "helm"))
	}
	s.say("\n  export KUBECONFIG=%s", cluster.Kubeconfig())
	s.say("  %s install gpu-scheduler charts/gpu-scheduler -f charts/gpu-scheduler/ci/local.yaml --namespace tangram-system --create-namespace --wait", helm)
	s.say("  %s test gpu-scheduler --namespace tangram-system", helm)
	s.say("\nLogs are in %s.", filepath.Join(s.options.dir, "logs"))
	s.sayHowToEnd()
	return nil
}
