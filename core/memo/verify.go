package memo

import (
	"errors"
	"fmt"
	"slices"
)

// Verify checks what the doc comment of the package promises. Cost: timers and vetoes.
func (m *Memo) Verify() error {
	if !slices.IsSorted(m.timers) {
		return errors.New("timers are not sorted")
	}
	listed := 0
	for s, sv := range m.Vetoes.shapes {
		if len(sv.nodes) == 0 && sv.everywhere == (veto{}) {
			return fmt.Errorf("the vetoes of shape %q are empty", s)
		}
		for node := range sv.nodes {
			if !m.Vetoes.byNode[node][s] {
				return fmt.Errorf("the veto of shape %q on node %s is not found by its node", s, node)
			}
			listed++
		}
	}
	for _, shapes := range m.Vetoes.byNode {
		listed -= len(shapes)
	}
	if listed != 0 {
		return fmt.Errorf("%d more vetoes of nodes than are listed by node", listed)
	}
	return nil
}
