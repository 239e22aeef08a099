// Package nested is another module: not ours to check.
package nested

import "example.com/stranger"

var _ = stranger.Run
