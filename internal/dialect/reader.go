package dialect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// reader reads fields of another project's object, by paths with dots. It keeps the first error.
type reader struct {
	object map[string]any
	// at is the path of the object, with a dot behind it; empty for a whole one.
	at    string
	first *error
}

func readerOf(o *unstructured.Unstructured) reader {
	return reader{object: o.Object, first: new(error)}
}

// err is the first invalid field, nil when there is none.
func (r reader) err() error { return *r.first }

// fail notes that a field is invalid.
func (r reader) fail(path, format string, args ...any) {
	r.note(fmt.Errorf(format, args...), path)
}

func (r reader) note(err error, path string) {
	if err != nil && *r.first == nil {
		*r.first = fmt.Errorf("%s%s: %w", r.at, path, err)
	}
}

// in is the object at a path; one without fields when there is none.
func (r reader) in(path string) reader {
	value, _ := r.value(path)
	r.object, _ = value.(map[string]any)
	r.at += path + "."
	return r
}

// list are the entries of a list of objects.
func (r reader) list(path string) []reader {
	value, _ := r.value(path)
	entries, _ := value.([]any)
	out := make([]reader, len(entries))
	for i, e := range entries {
		object, _ := e.(map[string]any)
		out[i] = reader{object: object, at: fmt.Sprintf("%s%s[%d].", r.at, path, i), first: r.first}
	}
	return out
}

// listOf is list for one of bounded length, which is not read when it is longer.
func (r reader) listOf(path string, most int) []reader {
	value, _ := r.value(path)
	if entries, _ := value.([]any); len(entries) > most {
		r.fail(path, "%d entries, at most %d", len(entries), most)
		return nil
	}
	return r.list(path)
}

// value is what a field has. Names of tasks and the like are fields, too, and may have dots.
func (r reader) value(path string) (any, bool) {
	if value, ok := r.object[path]; ok {
		return value, true
	}
	value, ok, err := unstructured.NestedFieldNoCopy(r.object, strings.Split(path, ".")...)
	return value, ok && err == nil
}

func (r reader) text(path string) string {
	value, there := r.value(path)
	text, ok := value.(string)
	if there && !ok {
		r.fail(path, "%v is not a text", value)
	}
	return text
}

func (r reader) flag(path string) bool {
	value, _ := r.value(path)
	b, _ := value.(bool)
	return b
}

func (r reader) number(path string) (int64, bool) {
	n, ok := r.float(path)
	return int64(n), ok
}

// float reads a number that may have a fraction.
func (r reader) float(path string) (float64, bool) {
	value, ok := r.value(path)
	if !ok {
		return 0, false
	}
	switch n := value.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	r.fail(path, "%v is not a number", value)
	return 0, false
}

// count is a number of pods, within bounds; otherwise when the object does not say it.
func (r reader) count(path string, otherwise, least int) int {
	n, ok := r.float(path)
	if !ok {
		return otherwise
	}
	return int(max(float64(least), min(n, maxGang)))
}

// amounts reads a list of resources into the names and units of Charge.
func (r reader) amounts(path string) map[arbiter.Resource]int64 {
	value, there := r.value(path)
	if !there {
		return nil
	}
	list, ok := value.(map[string]any)
	if !ok {
		r.fail(path, "%v is not a list of resources", value)
	}
	out := map[arbiter.Resource]int64{}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q, err := ParseQuantity(fmt.Sprint(list[name]))
		switch {
		case err != nil:
			r.fail(path+"."+name, "%v is not a quantity", list[name])
		case q.Sign() < 0:
			r.fail(path+"."+name, "%v is negative", list[name])
		case tooMuch(name, q):
			r.fail(path+"."+name, "%v is too much", list[name])
		default:
			countAmount(out, name, q)
		}
	}
	return out
}
