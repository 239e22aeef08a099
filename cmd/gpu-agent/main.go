// Command gpu-agent is Tangram's node agent: it describes a node's GPUs and hands them
// to containers as the scheduler decided.
package main

import (
	"os"

	"github.com/tangram-dev/tangram/internal/agent"
)

// version is set by the linker (hack/build.sh).
var version = "unknown"

func main() {
	if agent.NewCommand(version).Execute() != nil {
		os.Exit(1)
	}
}
