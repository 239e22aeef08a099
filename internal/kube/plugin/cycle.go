package plugin

import (
	"maps"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/model"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// cycleKey is where a scheduling cycle keeps what our plugins tell each other.
const cycleKey fwk.StateKey = "tangram.dev/cycle"

// cycle is that: what the engine said of the pod, and, as the cycle goes on, what is
// known.
type cycle struct {
	kubeengine.Cycle
	// trials are hypotheses about nodes, as preemption and nominated pods make them.
	trials map[model.NodeID]*coreanswer.Trial
}

// Clone copies what dry runs change: the framework clones the state for each
// node it tries.
func (c *cycle) Clone() fwk.StateData {
	out := *c
	if c.trials != nil {
		out.trials = make(map[model.NodeID]*coreanswer.Trial, len(c.trials))
		for id, t := range c.trials {
			out.trials[id] = &coreanswer.Trial{Without: maps.Clone(t.Without), With: slices.Clone(t.With)}
		}
	}
	return &out
}

// released says whether the engine has planned a place for the pod.
func (c *cycle) released() bool { return c != nil && c.Ticket != 0 }

// readCycle returns the cycle's data; nil for pods that the engine does not place.
func readCycle(cs fwk.CycleState) *cycle {
	data, err := cs.Read(cycleKey)
	if err != nil {
		return nil
	}
	return data.(*cycle)
}

// hypothesis returns what the cycle supposes of a node: at first that the pod itself does
// not hold what is planned for it. It changes nothing: filters judge nodes in parallel.
func (c *cycle) hypothesis(id model.NodeID) *coreanswer.Trial {
	if t := c.trials[id]; t != nil {
		return t
	}
	t := &coreanswer.Trial{Without: map[model.HolderID]bool{}}
	if c.released() {
		t.Without[c.Holder] = true
	}
	return t
}

// trial returns the cycle's hypothesis about a node, to be changed. It is called for the
// clones of a cycle that dry runs have.
func (c *cycle) trial(id model.NodeID) *coreanswer.Trial {
	if c.trials == nil {
		c.trials = map[model.NodeID]*coreanswer.Trial{}
	}
	t := c.hypothesis(id)
	c.trials[id] = t
	return t
}
