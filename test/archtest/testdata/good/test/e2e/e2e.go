// Package e2e imports from everywhere.
package e2e

import (
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/coretest"
)

var _ = []any{coretest.Node, local.Up}
