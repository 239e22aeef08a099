// Package names imports something.
package names

import "strings" // want: imports "strings"

// Group is not a constant.
var Group = strings.ToLower("Tangram.dev")
