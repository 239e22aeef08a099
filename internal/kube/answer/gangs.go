package answer

import (
	"cmp"
	"slices"
	"strings"
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

// Gangs are all gangs without members, as they start. The answer must not be changed.
func (a *Answers) Gangs() (at time.Time, items []apiquery.Gang) {
	g := a.gangs.show(a, ages{a.Ages.Lists, a.Ages.Lists}, func() shownGangs { return shownGangs{a.Clock(), a.drawGangs()} }, nil)
	return g.at, g.items
}

// drawGangs lists all gangs. Behind maxTurns, those that wait are by submission.
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

// Members are the members of all gangs of a name and of the gang of the pod of the name.
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

const (
	// maxTurns bounds of how many waiting gangs the position is found, under the lock.
	maxTurns = 5000
	// maxAhead is how many gangs are named that are before another one.
	maxAhead = 10
)

type turnOrder struct {
	turns []coreanswer.Turn
	place map[engine.ID]int
}

// order is the order of waiting gangs. A gang that waits and has no place in it may be new.
func (a *Answers) order(see Sight, id engine.ID, waits bool) turnOrder {
	draw := func() (o turnOrder) {
		a.lookFor(see, "why", func(v *View) { o.turns = v.Core.Gangs.Turns(maxTurns) })
		o.place = make(map[engine.ID]int, len(o.turns))
		for i := range o.turns {
			o.place[o.turns[i].ID] = i + 1
		}
		return o
	}
	return a.turns.show(a, ages{a.Ages.Lists, a.Ages.Order}, draw, func(o turnOrder) bool { return waits && o.place[id] == 0 })
}

// turnOf is a gang's place among those that wait, from 1, and gangs before it, those of its
// namespace first; 0 when it has no turn, or none that was seen yet.
func (a *Answers) turnOf(see Sight, id engine.ID, namespace string, waits bool) (position int, ahead []apiquery.GangRef) {
	p := a.order(see, id, waits)
	position = p.place[id]
	for _, own := range []bool{true, false} {
		for i := 0; i < position-1 && len(ahead) < maxAhead; i++ {
			if t := &p.turns[i]; (t.Namespace == namespace) == own {
				ahead = append(ahead, apiquery.GangRef{Namespace: t.Namespace, Name: strings.TrimPrefix(t.Name, t.Namespace+"/")})
			}
		}
	}
	return position, ahead
}
