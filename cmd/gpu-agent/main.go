// Command gpu-agent is Tangram's node agent: it describes a node's GPUs and hands them
// to containers as the scheduler decided.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"github.com/tangram-dev/tangram/internal/agent"
	"github.com/tangram-dev/tangram/lab/simulated"
)

func main() { os.Exit(cli.Run(agent.NewCommand(&simulated.Simulator{}))) }
