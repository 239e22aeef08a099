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
func (c *Cluster) Request(pod *v1.Pod, p Profile) (*model.Request, error) {
	r, err := c.request(pod, p)
	if r != nil && err == nil {
		c.complainAbout(pod.Namespace)
	}
	return r, err
}

// requestOf is Request for whoever holds the lock, under the pod's own profile.
func (c *Cluster) requestOf(pod *v1.Pod) (*model.Request, error) {
	return c.request(pod, c.profiles()[pod.Spec.SchedulerName])
}

func (c *Cluster) request(pod *v1.Pod, p Profile) (*model.Request, error) {
	r, err := dialect.RequestOn(pod, c.Levels())
	if err != nil || r == nil {
		return r, err
	}
	r.ProfileModels = p.Models
	if r.Placement != model.Auto && r.NodePlacement != model.Auto {
		return r, nil
	}
	said := p.Placements.Queues[pod.Labels[names.LabelQueue]]
	if said == model.Auto {
		said, _ = c.ofNamespace(pod.Namespace)
	}
	if said == model.Auto {
		said = p.Placements.Namespaces[pod.Namespace]
	}
	if said == model.Auto {
		said = p.Placements.Otherwise
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
// mistake, not that of every pod in it: it says nothing.
func (c *Cluster) ofNamespace(name string) (model.Placement, error) {
	ns, err := c.namespaces.Get(name)
	if err != nil { // not seen yet
		return model.Auto, nil
	}
	p, problem := dialect.Placement(ns.Annotations)
	if problem != nil {
		return model.Auto, problem
	}
	return p, nil
}

// complainAbout tells the owner of a Namespace that its annotation makes no sense.
func (c *Cluster) complainAbout(name string) {
	_, problem := c.ofNamespace(name)
	if problem == nil {
		return
	}
	c.mu.Lock()
	complain := c.complainOnce("namespace/"+name, problem)
	c.mu.Unlock()
	if ns, err := c.namespaces.Get(name); complain && err == nil {
		c.report(&v1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: name, UID: ns.UID}, "InvalidPlacement", problem.Error())
	}
}
