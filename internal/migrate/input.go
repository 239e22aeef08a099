package migrate

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/tangram-dev/tangram/internal/strictyaml"
)

// Input is a file, or an object of a cluster as YAML.
type Input struct {
	// Name is the file's, or namespace/kind/name of the object's, for messages.
	Name string
	Data []byte
	// Object: it is not a file, so lines say nothing.
	Object bool
}

// Problem is input that cannot be read.
type Problem = strictyaml.Problem

// node is a value of an input; its Part is kind/name of the object it is in, empty for plain configurations.
type (
	node  = strictyaml.Node
	entry = strictyaml.Entry
)

// parse returns the documents of an input that are not empty.
func parse(in *Input) ([]node, []Problem) { return strictyaml.Documents(in.Name, in.Data, !in.Object) }

// shown is a value for people: scalars as they are, others shortened.
func shown(n node) string {
	switch {
	case n.IsNull():
		return ""
	case n.IsMap() && len(n.Entries()) == 0:
		return "{}"
	case n.IsMap():
		return "{...}"
	case n.IsList():
		var parts []string
		for _, i := range n.Items() {
			parts = append(parts, shown(i))
		}
		return "[" + clip(strings.Join(parts, ", "), 60) + "]"
	}
	return clip(n.Text(), 80)
}

func clip(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most-3]) + "..."
	}
	return s
}

// kindOf is the apiVersion's group and the kind of an object.
func kindOf(n node) (group, kind string) {
	group, _, found := strings.Cut(n.Get("apiVersion").Text(), "/")
	if !found {
		group = ""
	}
	return group, n.Get("kind").Text()
}

// objectName is kind and namespace/name, for people.
func objectName(n node) string {
	_, kind := kindOf(n)
	name := cmp.Or(n.Get("metadata", "name").Text(), n.Get("metadata", "generateName").Text())
	if ns := n.Get("metadata", "namespace").Text(); ns != "" {
		name = ns + "/" + name
	}
	return kind + "/" + name
}

// asObject is the value as an object of the API: mappings by word, int64 and float64, no dates.
func asObject(n node) (map[string]any, error) {
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, err
	}
	object, ok := asJSON(v).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("not a mapping")
	}
	return object, nil
}

func asJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = asJSON(v[k])
		}
		return v
	case map[any]any:
		out := map[string]any{}
		for k, x := range v {
			out[fmt.Sprint(k)] = asJSON(x)
		}
		return out
	case []any:
		for i := range v {
			v[i] = asJSON(v[i])
		}
		return v
	case int:
		return int64(v)
	case nil, string, bool, int64:
		return v
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
		return v
	}
	return fmt.Sprint(v) // dates, numbers beyond int64
}

// walkLeaves visits values that are no mappings and no lists; [] stands for entries of lists.
// Empty mappings and lists are leaves, and lists of words.
func walkLeaves(n node, path string, visit func(leaf node, path string)) {
	switch {
	case !n.Has():
	case isLeaf(n):
		visit(n, path)
	case n.IsMap():
		for _, e := range n.Entries() {
			walkLeaves(e.Node, strings.TrimPrefix(path+"."+e.Key, "."), visit)
		}
	default:
		for _, i := range n.Items() {
			walkLeaves(i, path+"[]", visit)
		}
	}
}

func isLeaf(n node) bool {
	items := n.Items()
	return len(n.Entries()) == 0 && (len(items) == 0 || items[0].IsScalar())
}
