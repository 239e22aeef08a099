// Command tangram imports tests and a stranger.
package main

import (
	"example.com/stranger" // want: imports "example.com/stranger"

	"github.com/tangram-dev/tangram/test/coretest" // want: imports "github.com/tangram-dev/tangram/test/coretest"
	"github.com/tangram-dev/tangram/test/e2e"      // want: imports "github.com/tangram-dev/tangram/test/e2e"
)

func main() { stranger.Run(e2e.Run, coretest.Node) }
