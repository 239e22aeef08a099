// Command gpu-agent is Tangram's node agent: it describes a node's GPUs and hands them
// to containers as the scheduler decided.
package main

import (
	"os"

	"github.com/tangram-dev/tangram/internal/agent"
)

func main() {
	if agent.NewCommand().Execute() != nil {
		os.Exit(1)
	}
}
