package replica

import (
	"bytes"
	"fmt"

	yamlv3 "go.yaml.in/yaml/v3"
)

// maxExpanded bounds the documents of a manifest that have aliases, written out, in bytes.
const maxExpanded = 4 << 20

// nodeBytes is what a value counts besides its text.
const nodeBytes = 8

// boundAliases refuses a document that is much larger when its aliases are written out: a
// few lines can stand for gigabytes. left is how many bytes the manifest may still have. The
// YAML library bounds how many values come of aliases, not how long they are.
func boundAliases(doc []byte, left *int) error {
	if !bytes.ContainsRune(doc, '*') {
		return nil // no alias
	}
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(doc, &root); err != nil {
		return err
	}
	e := expansion{most: *left, size: map[*yamlv3.Node]int{}}
	*left -= e.of(&root)
	if e.large != nil {
		return fmt.Errorf("line %d: with aliases written out, the manifest is larger than %d MiB", e.large.Line, maxExpanded>>20)
	}
	return nil
}

// expansion computes how large values are with aliases written out.
type expansion struct {
	most int
	size map[*yamlv3.Node]int
	// large is the first value found that is too large.
	large *yamlv3.Node
}

// of is the size of a value, at most e.most and a little more. An anchor that holds
// itself counts once: the reader refuses it.
func (e *expansion) of(n *yamlv3.Node) int {
	if n == nil {
		return 0
	}
	if n.Kind == yamlv3.AliasNode {
		return e.of(n.Alias)
	}
	if size, known := e.size[n]; known {
		return size
	}
	e.size[n] = 0
	size := nodeBytes + len(n.Value)
	for _, c := range n.Content {
		if size += e.of(c); size > e.most {
			if e.large == nil {
				e.large = n
			}
			break
		}
	}
	e.size[n] = size
	return size
}
