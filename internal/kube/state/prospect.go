package state

import (
	"fmt"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
)

// prospect says what a waiting gang can count on: nodes that are kept for it, and
// from when. Empty when nothing is kept.
func (c *Cluster) prospect(id engine.ID) string {
	at, nodes, ok := c.gangs.engine.Reservation(id)
	switch {
	case !ok:
		return ""
	case c.gangs.engine.Freeing(id):
		return "pods are being evicted for it on " + spellNodes(nodes)
	case at == 0:
		return spellNodes(nodes) + " kept for it, from when what runs there ends"
	}
	// Times are guesses, and each new one is written to every pod: minutes will do.
	start := time.Unix(0, at).Add(time.Minute).Truncate(time.Minute)
	return fmt.Sprintf("%s kept for it, start expected by %s", spellNodes(nodes), start.UTC().Format("2006-01-02 15:04 MST"))
}

// spellNodes names nodes, not too many.
func spellNodes(nodes []model.NodeID) string {
	const most = 3
	var names []string
	for _, n := range nodes[:min(most, len(nodes))] {
		names = append(names, string(n))
	}
	text := strings.Join(names, ", ")
	if more := len(nodes) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(nodes) == 1 {
		return "node " + text
	}
	return "nodes " + text
}
