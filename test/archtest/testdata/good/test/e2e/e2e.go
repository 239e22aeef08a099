// Package e2e imports from everywhere.
package e2e

import (
	"github.com/tangram-dev/tangram/core/coretest"
	"github.com/tangram-dev/tangram/lab/local"
)

var _ = []any{coretest.Node, local.Up}
