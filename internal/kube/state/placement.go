package state

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Placements say in which direction nodes and devices are filled for pods that do not
// say so themselves. The zero value says nothing.
type Placements struct {
	// Queues and Namespaces are by name.
	Queues, Namespaces map[string]model.Placement
	// Otherwise is for everybody else.
	Otherwise model.Placement
}

// Request reads what a pod asks for; nil when it asks for no GPU. Where the pod leaves
// open in which direction nodes and devices are filled, the first that speaks decides:
// its queue, its Namespace's annotation, then what the placements say of its
// namespace, and of everybody.
func (c *Cluster) Request(pod *v1.Pod, p Placements) (*model.Request, error) {
	r, err := dialect.RequestOn(pod, c.Levels())
	if err != nil || r == nil || r.Placement != model.Auto && r.NodePlacement != model.Auto {
		return r, err
	}
	said := p.Queues[pod.Labels[names.LabelQueue]]
	if said == model.Auto {
		said = c.ofNamespace(pod.Namespace)
	}
	if said == model.Auto {
		said = p.Namespaces[pod.Namespace]
	}
	if said == model.Auto {
		said = p.Otherwise
	}
	if r.Placement == model.Auto {
		r.Placement = said
	}
	if r.NodePlacement == model.Auto {
		r.NodePlacement = said
	}
	return r, nil
}

// ofNamespace is what a Namespace's annotation says. Nonsense there is its owner's
// mistake, not that of every pod in it: it is reported and says nothing.
func (c *Cluster) ofNamespace(name string) model.Placement {
	ns, err := c.namespaces.Get(name)
	if err != nil { // not seen yet
		return model.Auto
	}
	p, problem := dialect.Placement(ns.Annotations)
	if problem == nil {
		return p
	}
	c.mu.Lock()
	complain := c.complainOnce("namespace/"+name, problem)
	c.mu.Unlock()
	if complain {
		c.report(&v1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: name, UID: ns.UID}, "InvalidPlacement", problem.Error())
	}
	return model.Auto
}
