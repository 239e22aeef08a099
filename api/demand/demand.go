// Package demand is what the scheduler asks of autoscalers, as text: for which gangs nodes
// of one domain are missing, and which nodes must stay. The scheduler writes it into a
// ConfigMap, gpu-controller carries it out (docs/guides/autoscaling.md).
package demand

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"time"
)

// Key is the ConfigMap's key that has the document.
const Key = "demand.json"

// Stale is the age from which a document counts for nothing: a scheduler writes it every minute.
const Stale = 5 * time.Minute

// Document is all that is asked for at a time.
type Document struct {
	// At is when it was written. It is written again while nothing changes: an old one has no scheduler.
	At time.Time `json:"at"`
	// Kept are nodes that are kept for gangs, sorted.
	Kept []string `json:"kept,omitempty"`
	// Gangs wait for nodes of one domain, the oldest first.
	Gangs []Gang `json:"gangs,omitempty"`
}

// Gang is members that need nodes together. Exactly one of Within, New and OneNode is set.
type Gang struct {
	// Name is namespace/name, for people.
	Name    string   `json:"name"`
	Members []Member `json:"members"`
	// Within are labels of the nodes that are needed.
	Within map[string]string `json:"within,omitempty"`
	// New: a node is needed with a value of a label that no node has yet. Only one: two might
	// come with two values. When it is there, the others are asked for within its domain.
	New *New `json:"new,omitempty"`
	// OneNode: all members must fit on one node.
	OneNode bool `json:"oneNode,omitempty"`
}

// Member is a pod that has no place.
type Member struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// New is a domain without nodes: any value of a label but these.
type New struct {
	Label string   `json:"label"`
	Not   []string `json:"not,omitempty"`
}

// Bounds of a document: it must fit into a ConfigMap, and a large cluster must not drown an
// autoscaler in pods that stand for others.
const (
	MaxMembers = 4000
	MaxKept    = 5000
	MaxNot     = 1000
	maxBytes   = 1 << 20
)

// Encode writes a document. It must be valid.
func (d *Document) Encode() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(d)
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("%d bytes, at most %d", len(text), maxBytes)
	}
	return text, err
}

// Decode reads a document. Unknown fields are errors: the demand would be met in part only.
func Decode(text []byte) (*Document, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("%d bytes, at most %d", len(text), maxBytes)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	d := &Document{}
	if err := decoder.Decode(d); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the document")
	}
	return d, d.Validate()
}

// Validate names the field that is wrong.
func (d *Document) Validate() error {
	if len(d.Kept) > MaxKept {
		return fmt.Errorf("kept: %d nodes, at most %d", len(d.Kept), MaxKept)
	}
	for i, n := range d.Kept {
		if n == "" {
			return fmt.Errorf("kept[%d]: empty", i)
		}
	}
	members := 0
	for i := range d.Gangs {
		if err := d.Gangs[i].validate(); err != nil {
			return fmt.Errorf("gangs[%d].%w", i, err)
		}
		members += len(d.Gangs[i].Members)
	}
	if members > MaxMembers {
		return fmt.Errorf("gangs: %d members, at most %d", members, MaxMembers)
	}
	return nil
}

func (g *Gang) validate() error {
	if len(g.Members) == 0 {
		return errors.New("members: none")
	}
	for i, m := range g.Members {
		if m.Namespace == "" || m.Name == "" || m.UID == "" {
			return fmt.Errorf("members[%d]: namespace, name or uid is empty", i)
		}
	}
	ways := 0
	for _, set := range []bool{len(g.Within) > 0, g.New != nil, g.OneNode} {
		if set {
			ways++
		}
	}
	switch {
	case ways != 1:
		return errors.New("within: exactly one of within, new and oneNode must be set")
	case g.New != nil && g.New.Label == "":
		return errors.New("new.label: empty")
	case g.New != nil && len(g.New.Not) > MaxNot:
		return fmt.Errorf("new.not: %d values, at most %d", len(g.New.Not), MaxNot)
	}
	for label, value := range g.Within {
		if label == "" || value == "" {
			return fmt.Errorf("within[%s]: empty", label)
		}
	}
	return nil
}

// Digest is a short name for a text: of a gang, in its placeholders' label.
func Digest(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return fmt.Sprintf("%016x", h.Sum64())
}
