package fake

import (
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// members is how many members a gang that waits has, of 8 GPUs each, all in one rack.
const members = 4

// reason is why such a gang waits, counted over the first rack and said in the scheduler's
// own codes and words.
func (f *Fleet) reason() explain.Reason {
	r := explain.Reason{Code: explain.Nodes, Need: members, Level: "rack"}
	for i := range f.nodes {
		n := &f.nodes[i]
		if n.Domains["rack"] != f.nodes[0].Domains["rack"] {
			continue
		}
		free := int64(0)
		for _, d := range n.Devices {
			if d.State == "free" {
				free++
			}
		}
		switch {
		case n.State != "ready":
			r.Nodes.AddNode(explain.Refusal{Code: explain.Cordoned}, model.NodeID(n.Name))
			continue
		case free == 8 && r.Placed < members-1: // another member has it
			r.Placed++
			free = 0
		}
		r.Nodes.AddNode(explain.Refusal{Code: explain.Taken, Need: 8, Best: min(free, 7)}, model.NodeID(n.Name))
	}
	return r
}
