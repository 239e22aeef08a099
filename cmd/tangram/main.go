// Command tangram runs local clusters, benchmarks and simulations.
package main

import (
	"fmt"
	"os"

	"github.com/tangram-dev/tangram/internal/cli"
)

func main() {
	if err := cli.New().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "tangram:", err)
		os.Exit(1)
	}
}
