package workload

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Describe turns a gang's pods into a gang for core; false when none is left. hasPlace
// says whether a pod that is not bound is on its way to a place. Cost: a sort of the
// gang's pods.
func (w *Gangs) Describe(id engine.ID, now time.Time, hasPlace func(model.HolderID) bool) (engine.Gang, bool) {
	g := w.groups[id]
	if g == nil || len(g.pods) == 0 {
		return engine.Gang{}, false
	}
	pods := g.sorted()
	first := pods[0]
	gang := engine.Gang{
		ID: g.id, Name: g.name(first), Min: max(1, least(pods)), Preemptible: true,
		Queue: first.Queue, Namespace: first.Pod.Namespace, User: first.User,
		Require: first.Request.Require.Level, Submitted: g.submitted(first.Pod.CreationTimestamp),
		Priority: priorityOf(first.Pod), Weights: w.reader.Profile(first.Pod.Spec.SchedulerName).Weights,
	}
	for _, m := range pods {
		gang.Priority = max(gang.Priority, priorityOf(m.Pod))
	}
	minOf := map[string]int{}
	if g.real {
		w.groupSays(g, first, &gang, minOf)
		gang.Invalid = g.contradiction(pods, w.owners.said(first))
	} else {
		gang.Min, gang.Invalid = 1, first.invalid // it comes alone, or leaves its gang
	}
	if g.bound {
		gang.Queue = g.charged
	}
	for _, m := range pods {
		gang.Runtime = max(gang.Runtime, m.Runtime)
		gang.MinRuntime = max(gang.MinRuntime, m.MinRuntime)
		gang.Preemptible = gang.Preemptible && m.Preemptible && !w.reader.Protected(m.Pod)
		gang.NeverPreempts = gang.NeverPreempts || m.Pod.Spec.PreemptionPolicy != nil && *m.Pod.Spec.PreemptionPolicy == v1.PreemptNever
	}
	w.wordsSay(g, pods, &gang, minOf, now)
	w.companySays(pods, &gang)
	var inside *nested
	if g.real {
		var problem string
		if inside, problem = w.subgroups(pods); gang.Invalid == "" {
			gang.Invalid = problem
		}
	}
	gang.Roles = rolesOf(pods, inside)
	if gang.Runtime == 0 {
		gang.Runtime = w.estimate(g, first)
	}
	if inside != nil {
		var done map[model.HolderID]finished
		if !w.awaitsMore(g, pods, inside.least(), now, hasPlace) {
			done = g.done
		}
		inside.add(&gang, done)
		return gang, true
	}
	w.leaveOutDone(g, &gang, pods, minOf, now, hasPlace)
	for _, task := range slices.Sorted(maps.Keys(minOf)) {
		if minOf[task] > 0 && countOf(gang.Roles, task) == 0 { // it waits for members of this task
			gang.Roles = append(gang.Roles, engine.Role{Name: task, Request: first.Request, Shape: first.Shape})
		}
	}
	gang.Min = max(1, gang.Min, spreadMinimums(gang.Roles, minOf))
	return gang, true
}

// least is how many members a gang needs now, as its members and their controllers say; 0
// when they do not.
func least(pods []*Member) int {
	var whole, first, running int
	runs, onlyLeaders := false, true
	later := map[dialect.Object]int{}
	for _, m := range pods {
		whole, first, running = max(whole, m.needs.Whole), max(first, m.needs.First), max(running, m.needs.Running)
		onlyLeaders = onlyLeaders && m.Leader
		runs = runs || m.Pod.Spec.NodeName != ""
		later[m.Also] = m.needs.Later
	}
	switch {
	case running > 0 && runs:
		return running
	case first > 0 && onlyLeaders:
		return first
	}
	for _, n := range later {
		whole = max(min(whole, 1), whole-n)
	}
	return whole
}

// counted says whether a controller says how many members the gang of a PodGroup needs:
// better than the PodGroup, which the same operator wrote before it started.
func (g *group) counted() bool {
	for _, m := range g.pods {
		if m.Also.Key != "" && m.needs.Whole > 0 {
			return true
		}
	}
	return false
}

// name is what people call a gang.
func (g *group) name(first *Member) string {
	if !g.real {
		return first.Pod.Namespace + "/" + first.Pod.Name
	}
	switch parts := strings.SplitN(string(g.id), "/", 3); {
	case first.Owner.Name != "":
		return first.Pod.Namespace + "/" + first.Owner.Name
	case len(parts) == 3 && parts[0] != "owner":
		return parts[1] + "/" + parts[2]
	}
	return first.Pod.Namespace + "/" + first.Pod.Name
}

// submitted is when a gang came, in nanoseconds. The API tells seconds, so of those that
// came within one second the first that was seen is the oldest.
func (g *group) submitted(created metav1.Time) int64 {
	return created.Unix()*int64(time.Second) + g.arrival%int64(time.Second)
}

// contradiction says in what members that wait disagree about their gang, naming the
// field; empty when they agree.
func (g *group) contradiction(pods []*Member, said *dialect.Group) string {
	var first *Member
	for _, m := range pods {
		if m.Pod.Spec.NodeName != "" {
			continue // what it said counted when it started
		}
		if m.invalid != "" {
			return fmt.Sprintf("pod %s: %s", m.Pod.Name, m.invalid)
		}
		if first == nil {
			first = m
			continue
		}
		if err := dialect.Contradiction(first.asMember(), m.asMember(), said); err != nil {
			return err.Error()
		}
	}
	return ""
}

// groupSays adds what a PodGroup says of a gang, or its controller.
func (w *Gangs) groupSays(from *group, first *Member, g *engine.Gang, minOf map[string]int) {
	said := w.owners.said(first)
	if said == nil {
		return
	}
	if !from.counted() {
		g.Min = said.Min
	}
	maps.Copy(minOf, said.MinTask)
	g.Queue = cmp.Or(said.Queue, g.Queue)
	if said.Require.Name != "" {
		g.Require = said.Require
	}
	if value, ok := w.owners.classPriority(said.Priority); ok {
		g.Priority = value
	}
	if object := w.objects[first.Object.Resource].Get(first.Object.Key); object != nil {
		g.Submitted = from.submitted(object.GetCreationTimestamp())
	}
}

// rolesOf are the members by shape and subgroup, in the order of the pods.
func rolesOf(pods []*Member, inside *nested) []engine.Role {
	var out []engine.Role
	type alike struct {
		shape engine.Shape
		leaf  string
	}
	roles := map[alike]int{}
	for _, m := range pods {
		key := alike{shape: m.Shape}
		if inside != nil {
			key.leaf = inside.leaf[model.HolderID(m.Pod.UID)]
		}
		at, ok := roles[key]
		if !ok {
			at = len(out)
			roles[key] = at
			role := engine.Role{Name: m.Task, Subgroup: key.leaf, Request: m.Request, Shape: m.Shape, Charge: m.charge()}
			if a := m.rules.apart; a != nil {
				role.KeepsApart, role.MaxPerNode = len(a.ports)+len(a.terms) > 0, a.most
			}
			out = append(out, role)
		}
		out[at].Members = append(out[at].Members, model.HolderID(m.Pod.UID))
	}
	return out
}

// charge is what a member is charged beside CPU, memory and the devices that are chosen for
// it: resources in their own units, and what claims hold that are allocated already.
func (m *Member) charge() arbiter.Amounts {
	out := dialect.OwnUnits(m.Pod)
	if m.Ask != nil && m.Ask.Charge > 0 {
		out = out.Plus(arbiter.NewAmounts(map[arbiter.Resource]int64{engine.GPU(model.NVIDIA): m.Ask.Charge}))
	}
	return out
}

// leaveOutDone counts members that succeeded as not missing. Where as many live as are
// needed they are the gang, and the ones that succeeded belong to an earlier run.
func (w *Gangs) leaveOutDone(g *group, gang *engine.Gang, pods []*Member, minOf map[string]int, now time.Time, hasPlace func(model.HolderID) bool) {
	if w.awaitsMore(g, pods, gang.Min, now, hasPlace) {
		return
	}
	done := w.counted(g)
	gang.Min -= min(len(done), max(0, gang.Min-len(pods)))
	for _, f := range done {
		if minOf[f.Task] > countOf(gang.Roles, f.Task) {
			minOf[f.Task]--
		}
	}
}

// counted are the members that succeeded and that the gang's minimum still counts: a
// controller may have left out whole tasks that are over.
func (w *Gangs) counted(g *group) (out []finished) {
	for _, f := range g.done {
		by := f.Object
		if f.PodGroup != "" {
			by = f.Also
		}
		if (f.PodGroup == "" || g.counted()) && dialect.Over(by.Resource, w.objects[by.Resource].Get(by.Key), f.Task) {
			continue
		}
		out = append(out, f)
	}
	return out
}

// NextRunFor is how long the first members of what may be a next run wait for the
// others: controllers create them one after the other.
const NextRunFor = time.Minute

// awaitsMore says whether a gang's living members, oldest first, may be the first of a
// next run under the same name: none of them has a place, and with those that succeeded
// there are more than the gang needs. They may as well be the last of a run, in place
// of one that was lost; so this holds for a while only.
func (w *Gangs) awaitsMore(g *group, pods []*Member, least int, now time.Time, hasPlace func(model.HolderID) bool) bool {
	if done := len(w.counted(g)); done == 0 || len(pods) >= least || len(pods)+done <= least {
		return false
	}
	for h, m := range g.pods {
		if m.Pod.Spec.NodeName != "" || hasPlace(h) {
			return false
		}
	}
	until := pods[len(pods)-1].Pod.CreationTimestamp.Add(w.timing.NextRun)
	if !until.After(now) {
		return false
	}
	if !g.recalled {
		g.recalled = true
		heap.Push(&w.alarms, alarm{at: until.Add(time.Millisecond), gang: g.id})
	}
	return true
}

// countOf is how many members a task has.
func countOf(roles []engine.Role, task string) (n int) {
	for _, r := range roles {
		if r.Name == task {
			n += len(r.Members)
		}
	}
	return n
}

// spreadMinimums gives tasks' minimums to their roles: pods of one task need not be
// alike. It returns their sum.
func spreadMinimums(roles []engine.Role, minOf map[string]int) (sum int) {
	last := map[string]int{}
	for i := range roles {
		r := &roles[i]
		r.Min = max(0, min(minOf[r.Name], len(r.Members)))
		minOf[r.Name] -= r.Min
		sum += r.Min
		last[r.Name] = i
	}
	for task, left := range minOf { // each on its own
		if left <= 0 {
			continue
		}
		sum += left
		if i, ok := last[task]; ok {
			roles[i].Min += left // it waits for members
		}
	}
	return sum
}

func priorityOf(pod *v1.Pod) int32 { return corev1helpers.PodPriority(pod) }

// compareMembers orders a gang's pods: as they were created, then by name, shorter
// first, so that worker-2 goes before worker-10.
func compareMembers(a, b *v1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), len(a.Name)-len(b.Name), strings.Compare(a.Name, b.Name))
}
