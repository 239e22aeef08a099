// Command gpu-extender is Tangram for a kube-scheduler that cannot be replaced.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"github.com/tangram-dev/tangram/internal/kube/extender"
)

func main() { os.Exit(cli.Run(extender.NewCommand())) }
