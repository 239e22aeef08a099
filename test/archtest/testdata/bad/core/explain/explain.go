// Package explain imports what is to its right, tests' helpers, and foreign code.
package explain

import (
	"github.com/tangram-dev/tangram/api/names"   // want: imports "github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/ledger" // want: imports "github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest" // want: imports "github.com/tangram-dev/tangram/test/coretest"
)

var _ = []any{names.Group, coretest.Node, ledger.New, model.Age}
