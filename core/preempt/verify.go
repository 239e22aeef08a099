package preempt

import "fmt"

// Verify checks what the doc comment of the package promises. Cost: what is remembered.
func (p *Preemptor) Verify() error {
	for id := range p.gangs {
		if p.cluster.Gang(id) == nil {
			return fmt.Errorf("evictions are remembered of gang %q, which is not known", id)
		}
	}
	return nil
}
