package model

import (
	"errors"
	. "strings" // want: dot import
)

// ErrFine is allowed; so are tables and assertions.
var ErrFine = errors.New("fine")

var _ error = ErrFine

var table = [3]int{1, 2, 3}

var byName = map[string]int{"a": 1} // a table too

var counter int // want: var counter

var cache map[string]int // want: var cache

var first, second = 1, table[0] // want: var first; var second

var pointer = &struct{ n int }{1} // want: var pointer

var hooks = map[string]func(){} // want: var hooks

var upper = ToUpper("a") // want: var upper

func init() { counter++ } // want: func init
