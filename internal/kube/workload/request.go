package workload

import (
	"cmp"
	"maps"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/dra"
)

// Placements say in which direction nodes and devices are filled for pods that do not
// say so themselves. The zero value says nothing.
type Placements struct {
	// Queues and Namespaces are by name.
	Queues, Namespaces map[string]model.Placement
	Otherwise          model.Placement // for all other pods
}

// Profile is what a scheduler profile says about its pods.
type Profile struct {
	Placements Placements       // for pods that do not say how they want to be placed
	Models     []model.GPUModel // Models, when not empty, are the only ones the profile hands out
	Weights    score.Weights    // Weights decide between nodes
	Tenants    *dialect.Tenants // the standing of tenants; nil: dialect.DefaultTenants
}

// Reader reads what pods ask for. It is safe for concurrent use and takes no lock.
type Reader struct {
	// Namespaces may be unsynced or unreadable: they only say what nothing else does.
	Namespaces corelisters.NamespaceLister
	Levels     func() topology.Levels
	// Claims reads what a pod's ResourceClaims mean; nil where they are not watched.
	Claims    func(*v1.Pod) (*dra.Ask, error)
	profiles  atomic.Pointer[map[string]Profile]
	protected atomic.Pointer[[]string]
	// readings are of waiting pods, by UID; kept: how many, parsed: how many were made.
	readings     sync.Map
	kept, parsed atomic.Int64
	// bound is the last reading of a bound pod, which is asked for twice when its event is handled
	// and not again.
	bound atomic.Pointer[Reading]
}

// Own says that the pods of a scheduler name are placed by this scheduler, and what its
// profile says about them. Saying it again replaces that.
func (r *Reader) Own(schedulerName string, p Profile) {
	all := map[string]Profile{}
	maps.Copy(all, r.all())
	all[schedulerName] = p
	r.profiles.Store(&all)
}

// Owns says whether pods of a scheduler name are placed by this scheduler.
func (r *Reader) Owns(schedulerName string) bool {
	_, ok := r.all()[schedulerName]
	return ok
}

// Profile is what is said about pods of a scheduler name.
func (r *Reader) Profile(schedulerName string) Profile { return r.all()[schedulerName] }

func (r *Reader) all() map[string]Profile {
	if all := r.profiles.Load(); all != nil {
		return *all
	}
	return nil
}

// RequestIn is Request under another profile than the pod's own.
func (r *Reader) RequestIn(pod *v1.Pod, p Profile) (*model.Request, error) {
	out, _, err := r.read(pod, p)
	return out, err
}

// read is RequestIn, with what the pod's claims mean; nil when it has none that matter.
func (r *Reader) read(pod *v1.Pod, p Profile) (*model.Request, *dra.Ask, error) {
	var ask *dra.Ask
	if r.Claims != nil {
		var err error
		if ask, err = r.Claims(pod); err != nil {
			return nil, nil, err
		}
	}
	var out *model.Request
	if ask != nil && ask.By != nil {
		var err error
		if out, err = dialect.RequestBy(pod, r.Levels(), ask.By); err != nil {
			return nil, ask, err
		}
	} else if x := r.Read(pod); x.RequestErr != nil {
		return nil, ask, x.RequestErr
	} else if x.Request != nil {
		own := *x.Request
		out = &own
	}
	if out != nil {
		r.settle(out, pod, p)
	}
	return out, ask, nil
}

// settle fills in what the pod leaves to others.
func (r *Reader) settle(out *model.Request, pod *v1.Pod, p Profile) {
	out.ProfileModels = p.Models
	if p.Tenants != nil {
		out.TenantPriority = p.Tenants.Of(pod)
	}
	if out.Placement != model.Auto && out.NodePlacement != model.Auto {
		return
	}
	ofNamespace, _ := r.PlacementOf(pod.Namespace)
	said := cmp.Or(p.Placements.Queues[pod.Labels[names.LabelQueue]], ofNamespace, p.Placements.Namespaces[pod.Namespace], p.Placements.Otherwise)
	out.Placement, out.NodePlacement = cmp.Or(out.Placement, said), cmp.Or(out.NodePlacement, said)
}

// PlacementOf is what a Namespace's annotation says. An invalid one is reported on the
// Namespace and says nothing about its pods.
func (r *Reader) PlacementOf(namespace string) (model.Placement, error) {
	ns, err := r.Namespaces.Get(namespace)
	if err != nil { // not seen yet
		return model.Auto, nil
	}
	return dialect.Placement(ns.Annotations)
}
