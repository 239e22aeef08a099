package coretest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/core/model"
)

// EachChange calls visit once for every field of a value and of what it contains, with
// a new sample in which only that field is different. A test that says for each field
// whether a key depends on it fails for a field added later.
//
// Fields are named by their path: "Devices[].UUID" for a field of a slice's element,
// "Devices[+]" for one element more, "Sellable{}" for a value of a map. Every slice and
// map of the sample must have an element.
func EachChange[T any](t *testing.T, sample func() *T, visit func(path string, changed *T)) {
	t.Helper()
	for i := 0; ; i++ {
		v, at, changed := sample(), 0, ""
		eachField(t, reflect.ValueOf(v).Elem(), "", func(path string, change func()) {
			if at == i {
				change()
				changed = path
			}
			at++
		})
		if i >= at {
			return
		}
		visit(changed, v)
	}
}

// Listed returns what a table says of a path, or of one it is inside of; the longest
// entry counts.
func Listed(table map[string]string, path string) (string, bool) {
	best, found := "", false
	for entry := range table {
		if path == entry || strings.HasPrefix(path, entry+".") || strings.HasPrefix(path, entry+"[") || strings.HasPrefix(path, entry+"{") {
			if !found || len(entry) > len(best) {
				best, found = entry, true
			}
		}
	}
	return table[best], found
}

// eachField visits all fields that can be changed, in order.
func eachField(t *testing.T, v reflect.Value, path string, visit func(path string, change func())) {
	t.Helper()
	if m, ok := v.Interface().(model.GPUModel); ok {
		if v.NumField() != 2 {
			t.Fatal("GPUModel has a new field: change it here")
		}
		visit(path+".name", func() { v.Set(reflect.ValueOf(model.ParseModel("other " + m.String()))) })
		visit(path+".qualifiers", func() { v.Set(reflect.ValueOf(model.ParseModel(m.String() + " 96gb"))) })
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() {
				t.Fatalf("%s.%s cannot be changed here", path, field.Name)
			}
			name := field.Name
			if path != "" {
				name = path + "." + name
			}
			eachField(t, v.Field(i), name, visit)
		}
	case reflect.Slice:
		if v.Len() == 0 {
			t.Fatalf("%s: the sample has none, so its fields cannot be changed", path)
		}
		visit(path+"[+]", func() { v.Set(reflect.Append(v, v.Index(v.Len()-1))) })
		eachField(t, v.Index(0), path+"[]", visit)
	case reflect.Map:
		if v.Len() == 0 {
			t.Fatalf("%s: the sample has none, so its values cannot be changed", path)
		}
		visit(path+"{}", func() {
			name := v.MapKeys()[0]
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(name))
			changeScalar(t, value, path)
			v.SetMapIndex(name, value)
		})
	default:
		visit(path, func() { changeScalar(t, v, path) })
	}
}

func changeScalar(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	switch {
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	case v.CanUint():
		v.SetUint(v.Uint() + 1)
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "x")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	default:
		t.Fatalf("%s: a %s cannot be changed here", path, v.Kind())
	}
}
