// Package newcomer has no row.
package newcomer // want: folder core/newcomer has no row
