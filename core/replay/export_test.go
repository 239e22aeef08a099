package replay

import (
	"reflect"

	"github.com/tangram-dev/tangram/core/engine"
)

// ZeroEvents is one event of each kind.
func ZeroEvents() (out []engine.Event) {
	for _, k := range kinds {
		e, _ := k.read([]byte("{}"))
		out = append(out, e)
	}
	return out
}

// EventTypes are the names of the types that can be recorded.
func EventTypes() (out []string) {
	for _, e := range ZeroEvents() {
		out = append(out, reflect.TypeOf(e).Name())
	}
	return out
}
