package engine

import (
	"cmp"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
)

// gangPicture is all gangs in order, as they were last shown.
type gangPicture struct {
	mu    sync.Mutex
	at    time.Time
	items []apiquery.Gang
}

// Gangs are all gangs without their members, in the order in which they start. The answer
// is shared and must not be changed.
func (e *Engine) Gangs() (at time.Time, items []apiquery.Gang) {
	p := &e.pictures.gangs
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := e.clock(); p.items == nil || now.Sub(p.at) >= pictureEvery || now.Before(p.at) {
		p.at, p.items = now, e.drawGangs()
	}
	return p.at, p.items
}

// maxOrder bounds of how many waiting gangs the position is found: that is done in one hold
// of the lock. Those behind are listed by submission, without a position.
const maxOrder = 5000

func (e *Engine) drawGangs() []apiquery.Gang {
	var order []engine.ID
	var list []engine.Listed
	e.look("query", func() { order = e.core.Order(maxOrder) })
	e.look("query", func() { list = e.core.List() })
	positions := make(map[engine.ID]int, len(order))
	for i, id := range order {
		positions[id] = i + 1
	}
	slices.SortFunc(list, func(a, b engine.Listed) int {
		if p, q := positions[a.ID], positions[b.ID]; a.Waits && b.Waits && p != q {
			return cmp.Compare(uint(p-1), uint(q-1)) // who has no position is behind
		}
		return a.Compare(b)
	})
	out, ids := make([]apiquery.Gang, 0, len(list)), make([]engine.ID, 0, len(list))
	for part := range slices.Chunk(list, gangsAtOnce) {
		e.look("query", func() {
			for _, l := range part {
				if g, there := e.gangAnswer(l.ID); there { // else it went meanwhile
					if g.Phase == apiquery.PhaseWaiting {
						g.Position = positions[l.ID]
					}
					out, ids = append(out, g), append(ids, l.ID)
				}
			}
		})
	}
	e.foreseeAll(out, ids)
	// What started meanwhile is not before what waits.
	slices.SortStableFunc(out, func(a, b apiquery.Gang) int { return waitsLast(&a) - waitsLast(&b) })
	return out
}

// waitsLast is 0 for gangs that wait, which are shown first.
func waitsLast(g *apiquery.Gang) int {
	if g.Phase == apiquery.PhaseWaiting {
		return 0
	}
	return 1
}

// gangAnswer is a gang as it travels. The caller holds the lock.
func (e *Engine) gangAnswer(id engine.ID) (apiquery.Gang, bool) {
	s, there := e.core.GangState(id)
	if !there {
		return apiquery.Gang{}, false
	}
	out := apiquery.Gang{
		GangRef: gangRef(&s.Gang), Kind: "Pod", Queue: s.Queue, User: s.User, Priority: s.Priority,
		Phase:     [...]string{apiquery.PhaseWaiting, apiquery.PhasePartial, apiquery.PhaseStarting, apiquery.PhaseRunning}[s.Phase],
		Submitted: time.Unix(0, s.Submitted).UTC().Truncate(time.Second), Need: s.Min, Exist: s.Exist, Placed: s.Placed, Milli: s.Milli,
		RuntimeSeconds: int64(s.Runtime / time.Second), Learned: e.work.Learned(id, s.Runtime),
	}
	if owner := e.ownerOf(&s.Gang); owner != nil {
		out.Kind, out.Owner = owner.Kind, owner.Name
	}
	if s.Phase == engine.Waiting || s.Phase == engine.Partial {
		if r := e.desk.Told(id); r != nil {
			reason := ReasonAnswer(r, false) // Reserved has the nodes, for those who may see them
			out.Reason = &reason
		}
	}
	if s.Phase == engine.Waiting && s.At > 0 {
		at := time.Unix(0, s.At).UTC()
		out.ExpectedStart = &at
	}
	for _, node := range s.Reserved {
		out.Reserved = append(out.Reserved, string(node))
	}
	return out, true
}

// ownerOf is the controller of a gang's first pod; nil for pods of their own.
func (e *Engine) ownerOf(g *engine.Gang) *metav1.OwnerReference {
	for _, r := range g.Roles {
		for _, h := range r.Members {
			if m := e.work.Member(h); m != nil {
				if m.Owner.Name != "" {
					return &m.Owner
				}
				return metav1.GetControllerOf(m.Pod)
			}
		}
	}
	return nil
}

// maxMembers bounds how many members of a gang are shown.
const maxMembers = 4096

// Members are the members of the gangs of a name, and of the gang of the pod of the name, by
// gang in the order of Gangs. Kinds may share a name.
func (e *Engine) Members(of apiquery.GangRef) (out []apiquery.Gang) {
	var ids []engine.ID
	e.look("query", func() { ids = e.gangsNamed(of) })
	for _, id := range ids {
		e.look("query", func() {
			if g, there := e.gangAnswer(id); there {
				g.Members = e.members(id)
				out = append(out, g)
			}
		})
	}
	return out
}

// gangsNamed finds gangs by their name or by the name of a pod, sorted. Cost: gangs. The
// caller holds the lock.
func (e *Engine) gangsNamed(of apiquery.GangRef) (out []engine.ID) {
	if pod, err := e.pods.Pods(of.Namespace).Get(of.Name); err == nil {
		if id, ok := e.core.Of(model.HolderID(pod.UID)); ok {
			out = append(out, id)
		}
	}
	out = append(out, e.core.Named(of.Namespace+"/"+of.Name)...)
	slices.Sort(out)
	return slices.Compact(out)
}

// members are the members of a gang, as they travel. The caller holds the lock.
func (e *Engine) members(id engine.ID) []apiquery.Member {
	out := []apiquery.Member{}
	g, _ := e.core.Gang(id)
	nodes, bound := e.core.Seats(id)
	for i := range g.Roles {
		for _, h := range g.Roles[i].Members {
			m := e.work.Member(h)
			if m == nil || len(out) == maxMembers {
				continue
			}
			member := apiquery.Member{Pod: podAnswer(m), Role: g.Roles[i].Name, Subgroup: g.Roles[i].Subgroup, State: "waiting", Asks: asks(m.Pod)}
			if node, placed := nodes[h]; placed {
				member.Node, member.State = string(node), "starting"
				if bound[h] {
					member.State = "bound"
				}
				member.Devices = e.parts(h)
			}
			if m.Leaving() {
				member.State = "leaving"
			}
			out = append(out, member)
		}
	}
	return out
}

// parts are the devices that a holder has, as they travel. The caller holds the lock.
func (e *Engine) parts(h model.HolderID) (out []apiquery.Part) {
	for _, p := range e.core.PartsOf(h) {
		out = append(out, apiquery.Part{Index: p.Device.Index, UUID: p.Device.UUID, Milli: int64(p.Milli), MemoryMiB: int64(p.Memory), Profile: p.Profile, Start: p.Start})
	}
	return out
}

// asks is what a pod requests, by resource name.
func asks(pod *v1.Pod) (out []apiquery.Asked) {
	list := resource.PodRequests(pod, resource.PodResourcesOptions{})
	for name, amount := range list { // sorted below
		if !amount.IsZero() {
			out = append(out, apiquery.Asked{Resource: string(name), Amount: amount.String()})
		}
	}
	slices.SortFunc(out, func(a, b apiquery.Asked) int {
		if a.Resource < b.Resource {
			return -1
		}
		return 1
	})
	return out
}
