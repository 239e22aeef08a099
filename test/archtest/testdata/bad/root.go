// Package tangram sits at the root, which has no row.
package tangram // want: folder . has no row
