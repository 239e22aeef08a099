// Command gpu-controller runs Volcano Jobs and keeps the status of PodGroups and
// Queues.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"github.com/tangram-dev/tangram/internal/kube/controller"
)

func main() { os.Exit(cli.Run(controller.NewCommand())) }
