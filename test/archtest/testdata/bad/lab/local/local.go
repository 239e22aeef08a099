// Package local knows how Tangram decides, and imports a command.
package local

import (
	"github.com/tangram-dev/tangram/cmd/tangram" // want: imports "github.com/tangram-dev/tangram/cmd/tangram"
	"github.com/tangram-dev/tangram/core/model"  // want: imports "github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/e2e"    // want: imports "github.com/tangram-dev/tangram/test/e2e"
)

var _ = []any{main.Run, model.Age, e2e.Run}
