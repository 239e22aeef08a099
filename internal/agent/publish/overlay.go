package publish

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
)

// An agent lays what it knows over the object that exists: a key that its own version of
// the types has is set, or removed when there is nothing to say; every other key was
// written by a newer agent, an operator or another program, and stays. That holds in
// every map, also in the items of lists, which are found again by their identity.

// identities are the fields that tell the items of a list apart, by the list's name. An
// item whose uuid has changed is another thing, and nothing of the old one stays.
var identities = map[string][]string{
	"devices": {"index"}, "profiles": {"id"}, "instances": {"profile", "start"}, "links": {"between", "class"}, "conditions": {"type"},
}

// keepsOthers are lists that others add items to.
var keepsOthers = map[string]bool{"conditions": true}

// neverWritten are fields that belong to others though the types have them.
var neverWritten = map[string]bool{"cordoned": true}

// overlay returns old with what the type t knows replaced by what is wanted. Neither
// argument is changed; old may be nil.
func overlay(old, want map[string]any, t reflect.Type) map[string]any {
	out := make(map[string]any, len(old)+len(want))
	maps.Copy(out, old)
	for name, field := range fieldsOf(t) {
		value, there := want[name]
		switch {
		case neverWritten[name]:
		case !there:
			delete(out, name)
		default:
			out[name] = overlayValue(name, old[name], value, field)
		}
	}
	return out
}

func overlayValue(name string, old, want any, t reflect.Type) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch want := want.(type) {
	case map[string]any:
		was, _ := old.(map[string]any)
		return overlay(was, want, t)
	case []any:
		if identity := identities[name]; identity != nil && t.Kind() == reflect.Slice {
			was, _ := old.([]any)
			return overlayList(name, was, want, identity, t.Elem())
		}
	}
	return want
}

// overlayList lays wanted items over those that exist, in the order in which they are
// wanted.
func overlayList(name string, old, want []any, identity []string, t reflect.Type) []any {
	known := map[string]map[string]any{}
	for _, item := range old {
		if m, ok := item.(map[string]any); ok {
			known[identify(m, identity)] = m
		}
	}
	out := make([]any, 0, len(want))
	for _, item := range want {
		m, ok := item.(map[string]any)
		if !ok {
			out = append(out, item)
			continue
		}
		id := identify(m, identity)
		was := known[id]
		if delete(known, id); was != nil && was["uuid"] != nil && m["uuid"] != nil && was["uuid"] != m["uuid"] {
			was = nil
		}
		out = append(out, overlay(was, m, t))
	}
	if keepsOthers[name] {
		for _, item := range old {
			if m, ok := item.(map[string]any); ok && known[identify(m, identity)] != nil {
				out = append(out, item)
			}
		}
	}
	return out
}

func identify(item map[string]any, identity []string) string {
	var out []string
	for _, key := range identity {
		out = append(out, fmt.Sprint(item[key]))
	}
	return strings.Join(out, " ")
}

// fieldsOf are the JSON names of a struct's fields with their types.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	out := map[string]reflect.Type{}
	if t.Kind() != reflect.Struct {
		return out
	}
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			out[name] = t.Field(i).Type
		}
	}
	return out
}

// mergePatch is the JSON merge patch (RFC 7386) that turns one object into the other;
// empty when they are equal. Lists are replaced as a whole, so a patch needs the version
// of the object it was made from.
func mergePatch(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for key := range from {
		if _, there := to[key]; !there {
			patch[key] = nil
		}
	}
	for key, value := range to {
		was, there := from[key]
		before, isMap := was.(map[string]any)
		after, becomesMap := value.(map[string]any)
		switch {
		case there && isMap && becomesMap:
			if inner := mergePatch(before, after); len(inner) > 0 {
				patch[key] = inner
			}
		case !there || !equal(was, value):
			patch[key] = value
		}
	}
	return patch
}

// equal compares JSON values, whatever Go types they came in.
func equal(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && string(x) == string(y)
}
