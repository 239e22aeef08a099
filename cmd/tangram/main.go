// Command tangram runs local clusters, benchmarks and simulations.
package main

import (
	"fmt"
	"os"

	"github.com/tangram-dev/tangram/internal/cli"
)

// version is set by the linker (hack/build.sh).
var version = "unknown"

func main() {
	if err := cli.New(version).Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "tangram:", err)
		os.Exit(1)
	}
}
