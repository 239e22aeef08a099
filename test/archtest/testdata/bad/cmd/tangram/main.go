// Command tangram imports tests and a stranger.
package main

import (
	"example.com/stranger" // want: imports "example.com/stranger"

	"github.com/tangram-dev/tangram/core/coretest" // want: (it is for tests only)
	"github.com/tangram-dev/tangram/test/e2e"      // want: imports "github.com/tangram-dev/tangram/test/e2e"
)

func main() { stranger.Run(e2e.Run, coretest.Node) }
