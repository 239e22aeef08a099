package answer

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	apiquery "github.com/tangram-dev/tangram/api/query"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/observe"
)

// shownGangs are all gangs at a time, in the order in which they start.
type shownGangs struct {
	at    time.Time
	items []apiquery.Gang
}

// Gangs are all gangs without their members, in the order in which they start. The answer
// is shared and must not be changed.
func (a *Answers) Gangs() (at time.Time, items []apiquery.Gang) {
	g := a.gangs.show(a, ages{a.Ages.Lists, a.Ages.Lists}, func() shownGangs { return shownGangs{a.Clock(), a.drawGangs()} }, nil)
	return g.at, g.items
}

// drawGangs lists all gangs. Those of which no position is found (maxTurns) are behind the
// others that wait, by submission.
func (a *Answers) drawGangs() []apiquery.Gang {
	var order []coreanswer.Turn
	var list []coreanswer.Listed
	a.look(func(v *View) { order = v.Core.Gangs.Turns(maxTurns) })
	a.look(func(v *View) { list = v.Core.Gangs.List() })
	positions := make(map[engine.ID]int, len(order))
	for i := range order {
		positions[order[i].ID] = i + 1
	}
	slices.SortFunc(list, func(x, y coreanswer.Listed) int {
		if p, q := positions[x.ID], positions[y.ID]; x.Waits && y.Waits && p != q {
			return cmp.Compare(uint(p-1), uint(q-1)) // no position is behind all
		}
		return x.Compare(y)
	})
	out, ids := make([]apiquery.Gang, 0, len(list)), make([]engine.ID, 0, len(list))
	for part := range slices.Chunk(list, gangsAtOnce) {
		a.look(func(v *View) {
			for _, l := range part {
				if g, there := v.gang(l.ID); there { // else it went meanwhile
					if g.Phase == apiquery.PhaseWaiting {
						g.Position = positions[l.ID]
					}
					out, ids = append(out, g), append(ids, l.ID)
				}
			}
		})
	}
	a.foreseeAll(out, ids)
	runs := func(g *apiquery.Gang) int {
		if g.Phase == apiquery.PhaseWaiting {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(x, y apiquery.Gang) int { return runs(&x) - runs(&y) }) // some started meanwhile
	return out
}

// gang is a gang as it travels.
func (v *View) gang(id engine.ID) (apiquery.Gang, bool) {
	s, there := v.Core.Gangs.GangState(id)
	if !there {
		return apiquery.Gang{}, false
	}
	out := apiquery.Gang{
		GangRef: observe.GangRef(&s.Gang), Kind: "Pod", Queue: s.Queue, User: s.User, Priority: s.Priority,
		Phase:     [...]string{apiquery.PhaseWaiting, apiquery.PhasePartial, apiquery.PhaseStarting, apiquery.PhaseRunning}[s.Phase],
		Submitted: time.Unix(0, s.Submitted).UTC().Truncate(time.Second), Need: s.Min, Exist: s.Exist, Placed: s.Placed, Milli: s.Milli,
		RuntimeSeconds: int64(s.Runtime / time.Second), Learned: v.Work.Learned(id, s.Runtime),
	}
	if owner := v.ownerOf(&s.Gang); owner != nil {
		out.Kind, out.Owner = owner.Kind, owner.Name
	}
	if s.Phase == coreanswer.Waiting || s.Phase == coreanswer.Partial {
		if r := v.Notices.Told(id); r != nil {
			reason := ReasonAnswer(r, false) // Reserved has the nodes, for those who may see them
			out.Reason = &reason
		}
	}
	if s.Phase == coreanswer.Waiting && s.At > 0 {
		at := time.Unix(0, s.At).UTC()
		out.ExpectedStart = &at
	}
	out.Reserved = nodeNames(s.Reserved)
	return out, true
}

// ownerOf is the controller of a gang's first pod; nil for pods of their own.
func (v *View) ownerOf(g *engine.Gang) *metav1.OwnerReference {
	for _, r := range g.Roles {
		for _, h := range r.Members {
			if m := v.Work.Member(h); m != nil {
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
func (a *Answers) Members(of apiquery.GangRef) (out []apiquery.Gang) {
	var ids []engine.ID
	a.look(func(v *View) { ids = a.gangsNamed(v, of) })
	for _, id := range ids {
		a.look(func(v *View) {
			if g, there := v.gang(id); there {
				g.Members = v.members(id)
				out = append(out, g)
			}
		})
	}
	return out
}

// gangsNamed finds gangs by their name or by the name of a pod, sorted. Cost: gangs.
func (a *Answers) gangsNamed(v *View, of apiquery.GangRef) (out []engine.ID) {
	if pod, err := a.Pods.Pods(of.Namespace).Get(of.Name); err == nil {
		if id, ok := v.Core.Gangs.Of(model.HolderID(pod.UID)); ok {
			out = append(out, id)
		}
	}
	out = append(out, v.Core.Gangs.Named(of.Namespace+"/"+of.Name)...)
	slices.Sort(out)
	return slices.Compact(out)
}

// members are the members of a gang, as they travel.
func (v *View) members(id engine.ID) []apiquery.Member {
	out := []apiquery.Member{}
	g, _ := v.Core.Gangs.Gang(id)
	nodes, bound := v.Core.Gangs.Seats(id)
	for i := range g.Roles {
		for _, h := range g.Roles[i].Members {
			m := v.Work.Member(h)
			if m == nil || len(out) == maxMembers {
				continue
			}
			member := apiquery.Member{Pod: observe.PodRef(m.Pod), Role: g.Roles[i].Name, Subgroup: g.Roles[i].Subgroup, State: "waiting", Asks: asks(m.Pod)}
			if node, placed := nodes[h]; placed {
				member.Node, member.State = string(node), "starting"
				if bound[h] {
					member.State = "bound"
				}
				member.Devices = v.parts(h)
			}
			if m.Leaving() {
				member.State = "leaving"
			}
			out = append(out, member)
		}
	}
	return out
}

// parts are the devices that a holder has, as they travel.
func (v *View) parts(h model.HolderID) (out []apiquery.Part) {
	for _, p := range v.Core.Nodes.PartsOf(h) {
		out = append(out, apiquery.Part{Index: p.Device.Index, UUID: p.Device.UUID, Milli: int64(p.Milli), MemoryMiB: int64(p.Memory), Profile: p.Profile, Start: p.Start})
	}
	return out
}

// asks is what a pod requests, by resource name.
func asks(pod *v1.Pod) (out []apiquery.Asked) {
	for name, amount := range resource.PodRequests(pod, resource.PodResourcesOptions{}) { // sorted below
		if !amount.IsZero() {
			out = append(out, apiquery.Asked{Resource: string(name), Amount: amount.String()})
		}
	}
	slices.SortFunc(out, func(a, b apiquery.Asked) int { return cmp.Compare(a.Resource, b.Resource) })
	return out
}
