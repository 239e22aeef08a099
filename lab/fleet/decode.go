package fleet

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/internal/strictyaml"
)

// decoder reads a fleet file.
type decoder struct{ *strictyaml.Reader }

// refuseNull reports fields without a value: they would count as not set, and a pool whose
// gpu is forgotten would have none.
func (d decoder) refuseNull(n *yaml.Node, path string) {
	for i, c := range n.Content {
		switch n.Kind {
		case yaml.MappingNode:
			if key := n.Content[i&^1]; i%2 == 1 {
				d.refuseNull(c, strictyaml.Join(path, key.Value))
			}
		case yaml.SequenceNode:
			d.refuseNull(c, fmt.Sprintf("%s[%d]", path, i))
		}
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		d.Fail(n, path, "has no value")
	}
}

// require reports the fields of an object that are absent.
func (d decoder) require(n *yaml.Node, path string, present map[string]*yaml.Node, names ...string) {
	if n.Kind != yaml.MappingNode {
		return // already reported
	}
	for _, name := range names {
		if present[name] == nil {
			d.Fail(n, strictyaml.Join(path, name), "is missing")
		}
	}
}

// eachPair calls f for the entries of a mapping with any keys.
func (d decoder) eachPair(n *yaml.Node, path string, f func(key, value *yaml.Node, at string)) {
	if n.Kind != yaml.MappingNode {
		d.Fail(n, path, "%s, want an object", strictyaml.Describe(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := fmt.Sprintf("%s[%s]", path, key.Value)
		switch {
		case key.Kind != yaml.ScalarNode:
			d.Fail(key, path, "has a key that is %s", strictyaml.Describe(key))
		case seen[key.Value]:
			d.Fail(key, at, "is there twice")
		default:
			f(key, strictyaml.Follow(n.Content[i+1]), at)
		}
		seen[key.Value] = true
	}
}

// text accepts strings and, because quotes are easily forgotten, numbers and booleans
// as they are written.
func (d decoder) text(n *yaml.Node, path string) string {
	if n.Kind != yaml.ScalarNode {
		d.Fail(n, path, "%s, want a text", strictyaml.Describe(n))
		return ""
	}
	return n.Value
}

// checked is a text that is of a kind, by Kubernetes' rules for it.
func (d decoder) checked(n *yaml.Node, path, kind string, problems func(string) []string) string {
	text := d.text(n, path)
	if found := problems(text); len(found) > 0 {
		d.Fail(n, path, "%q is no %s: %s", text, kind, found[0])
	}
	return text
}

func (d decoder) oneOf(n *yaml.Node, path string, allowed ...string) string {
	if n.Kind == yaml.ScalarNode && slices.Contains(allowed, n.Value) {
		return n.Value
	}
	d.Fail(n, path, "%s, want one of %s", strictyaml.Describe(n), strings.Join(allowed, ", "))
	return ""
}

// integer is 0 when the value is wrong, which no check that follows reports again.
func (d decoder) integer(n *yaml.Node, path string, least, most int) int {
	v, _ := d.Int(n, path, least, most, "")
	return v
}

// plainQuantity excludes exponents: they are not used for a node's memory, and
// Kubernetes parses 1e99999 as a quantity of value 0.
var plainQuantity = regexp.MustCompile(`^[0-9]{1,18}(\.[0-9]{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$`)

func (d decoder) quantity(n *yaml.Node, path string) (resource.Quantity, bool) {
	if n.Kind == yaml.ScalarNode && plainQuantity.MatchString(n.Value) {
		if q, err := resource.ParseQuantity(n.Value); err == nil && q.Sign() > 0 {
			return q, true
		}
	}
	d.Fail(n, path, "%s, want a positive quantity such as 96 or 512Gi", strictyaml.Describe(n))
	return resource.Quantity{}, false
}

// memory is a device's memory as a quantity, in MiB.
func (d decoder) memory(n *yaml.Node, path string) int64 {
	q, ok := d.quantity(n, path)
	mib := q.Value() >> 20
	if ok && (mib < 1 || mib > maxMemory) {
		d.Fail(n, path, "%s, want 1Mi to %sTi: write it like 80Gi", q.String(), strconv.Itoa(maxMemory>>20))
	}
	return mib
}
