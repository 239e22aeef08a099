//go:build never

// Package ledger hides behind a build tag.
package ledger

import (
	"C"      // want: imports "C"
	"unsafe" // want: imports "unsafe"
)
