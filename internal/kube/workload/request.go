package workload

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/dra"
)

// Placements say in which direction nodes and devices are filled, where pods do not.
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
}

// Own says that pods of a scheduler name are placed here, and what its profile says.
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

// RequestIn reads what a pod asks for under a profile; nil when it asks for no GPU. Where it
// leaves open in which direction nodes and devices are filled, the first that speaks decides:
// its queue, its Namespace's annotation, then what the profile says of its namespace, and of
// all pods.
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

// PlacementOf is what a Namespace's annotation says; an invalid one says nothing of its pods.
func (r *Reader) PlacementOf(namespace string) (model.Placement, error) {
	ns, err := r.Namespaces.Get(namespace)
	if err != nil { // not seen yet
		return model.Auto, nil
	}
	return dialect.Placement(ns.Annotations)
}

// Reading is what a pod says by itself of its gang and of what it asks for, whatever its
// owners, its claims and its profile say. It is shared and must not be changed.
type Reading struct {
	pod    *v1.Pod
	levels topology.Levels
	// Membership is the pod's gang; MembershipErr names the field that is wrong.
	Membership    dialect.Membership
	MembershipErr error
	// Request is nil when the pod asks for no GPU; RequestErr names the field that is wrong.
	Request    *model.Request
	RequestErr error
}

// maxReadings bounds how many readings are kept. Those of pods that wait are dropped when
// the pods are bound or gone; a pod may be asked about once more after that.
const maxReadings = 50_000

// Read reads a pod, each waiting version once: for gate, waiting room, gang and cycle.
func (r *Reader) Read(pod *v1.Pod) *Reading {
	levels := r.Levels()
	if kept, ok := r.readings.Load(pod.UID); ok {
		if x := kept.(*Reading); x.is(pod) && slices.Equal(x.levels, levels) {
			return x
		}
	}
	x := &Reading{pod: pod, levels: levels}
	x.Membership, x.MembershipErr = dialect.MembershipOf(pod)
	x.Request, x.RequestErr = dialect.RequestOn(pod, levels)
	r.parsed.Add(1)
	if pod.Spec.NodeName != "" {
		return x
	}
	if _, there := r.readings.Swap(pod.UID, x); !there && r.kept.Add(1) > maxReadings {
		r.readings.Clear()
		r.kept.Store(0)
	}
	return x
}

// is says whether a reading is of this version of a pod.
func (x *Reading) is(pod *v1.Pod) bool {
	return x.pod == pod || pod.ResourceVersion != "" && x.pod.ResourceVersion == pod.ResourceVersion && x.pod.UID == pod.UID
}

// Forget drops the reading of a pod that is bound or gone.
func (r *Reader) Forget(uid types.UID) {
	if _, there := r.readings.LoadAndDelete(uid); there {
		r.kept.Add(-1)
	}
}

// Parsed is how many readings were made: a measure of what pods cost.
func (r *Reader) Parsed() int64 { return r.parsed.Load() }

// systemPriority is the smallest priority of Kubernetes' system-critical classes.
const systemPriority = 2_000_000_000

// defaultProtected are the namespaces whose pods are never evicted, by default.
var defaultProtected = []string{"kube-system"}

// Protect sets the namespaces whose pods are never victims, in place of kube-system.
func (r *Reader) Protect(namespaces []string) { r.protected.Store(&namespaces) }

// Protected says whether a pod is no victim ever: system-critical, or its namespace is.
func (r *Reader) Protected(pod *v1.Pod) bool {
	namespaces := defaultProtected
	if set := r.protected.Load(); set != nil {
		namespaces = *set
	}
	return priorityOf(pod) >= systemPriority || slices.Contains(namespaces, pod.Namespace)
}
