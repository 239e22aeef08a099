package plugin

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/state"
)

// cycleKey is where a scheduling cycle keeps what our plugins tell each other.
const cycleKey fwk.StateKey = "tangram.dev/cycle"

// cycle is that: the pod's request and, as the cycle goes on, what is known.
type cycle struct {
	request *model.Request
	// fits: the index has shown that some node can take the pod.
	fits bool
	// planned is the place the pod was given before the cycle; nil for most.
	planned *state.Release
	// given is what Reserve chose; nil before.
	given *state.Assignment
	// trials are preemption's hypotheses, by node.
	trials map[model.NodeID]*state.Trial
}

// Clone copies what dry runs change: the framework clones the state for each
// node it tries.
func (c *cycle) Clone() fwk.StateData {
	out := *c
	if c.trials != nil {
		out.trials = make(map[model.NodeID]*state.Trial, len(c.trials))
		for id, t := range c.trials {
			out.trials[id] = &state.Trial{Without: maps.Clone(t.Without), With: slices.Clone(t.With)}
		}
	}
	return &out
}

// readCycle returns the cycle's data; nil before PreFilter and for pods that ask
// for no GPU.
func readCycle(cs fwk.CycleState) *cycle {
	data, err := cs.Read(cycleKey)
	if err != nil {
		return nil
	}
	return data.(*cycle)
}

// request reads a pod's request under a profile.
func (p *profile) request(pod *v1.Pod) (*model.Request, error) {
	r, err := p.cluster.Request(pod, p.placements)
	if r != nil {
		r.ProfileModels = p.models
	}
	return r, err
}
