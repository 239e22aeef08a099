// Command tangram asks the scheduler what it does and why, and runs local clusters,
// benchmarks and simulations. As kubectl-tangram it is a plugin of kubectl.
package main

import (
	"context"
	"os"

	"github.com/tangram-dev/tangram/internal/cli"
	labcli "github.com/tangram-dev/tangram/lab/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr, labcli.Commands()...))
}
