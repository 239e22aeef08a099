package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
)

// describe turns a group of pods into a gang. Cost: a sort of its pods.
func (c *Cluster) describe(g *group) engine.Gang {
	gang := engine.Gang{ID: g.id, Min: 1, Preemptible: true}
	pods := slices.SortedFunc(maps.Values(g.pods), func(a, b *memberPod) int { return compareMembers(a.pod, b.pod) })
	first := pods[0]
	gang.Queue, gang.Namespace, gang.User = first.Queue, first.pod.Namespace, first.User
	gang.Require = first.request.Require.Level
	gang.Submitted = first.pod.CreationTimestamp.UnixNano()
	gang.Priority = priorityOf(first.pod)
	for _, m := range pods {
		gang.Priority = max(gang.Priority, priorityOf(m.pod))
	}
	minOf := map[string]int{}
	if gang.Min = max(1, first.Size); first.PodGroup != "" {
		c.groupSays(&first.membership, &gang, minOf)
	}
	if !g.real { // it comes alone, or leaves its gang
		gang.Min, minOf = 1, map[string]int{}
	}
	resting := ""
	if time.Now().Before(g.rests) {
		resting = "resting " + string(g.id)
	}
	roles := map[string]int{}
	for _, m := range pods {
		gang.Runtime = max(gang.Runtime, m.Runtime)
		gang.MinRuntime = max(gang.MinRuntime, m.MinRuntime)
		gang.Preemptible = gang.Preemptible && m.Preemptible
		gang.NeverPreempts = gang.NeverPreempts || m.pod.Spec.PreemptionPolicy != nil && *m.pod.Spec.PreemptionPolicy == v1.PreemptNever
		like := m.likeness()
		at, ok := roles[like.shape]
		if !ok {
			at = len(gang.Roles)
			roles[like.shape] = at
			c.podOf[m.request] = m
			gang.Roles = append(gang.Roles, engine.Role{Name: m.Task, Request: m.request, Class: like.rules + resting})
		}
		gang.Roles[at].Members = append(gang.Roles[at].Members, model.HolderID(m.pod.UID))
	}
	if gang.Runtime == 0 {
		gang.Runtime = c.estimate(g, first)
	}
	// Who succeeded is not missed. Where as many live as are needed they are the gang,
	// and who succeeded belongs to an earlier run.
	if !c.awaitsMore(g, pods, gang.Min) {
		gang.Min -= min(len(g.done), max(0, gang.Min-len(pods)))
		for _, task := range g.done {
			if minOf[task] > countOf(gang.Roles, task) {
				minOf[task]--
			}
		}
	}
	for _, task := range slices.Sorted(maps.Keys(minOf)) {
		if minOf[task] > 0 && countOf(gang.Roles, task) == 0 { // it waits for members of this task
			gang.Roles = append(gang.Roles, engine.Role{Name: task, Request: first.request})
		}
	}
	sum := spreadMinimums(gang.Roles, minOf)
	gang.Min = max(1, gang.Min, sum)
	return gang
}

// nextRunFor is how long the first members of what may be a next run wait for the
// others: controllers make them one after the other.
const nextRunFor = time.Minute

// awaitsMore says whether a gang's living members, oldest first, may be the first of a
// next run under the same name: none of them has a place, and with those who succeeded
// there are more than the gang needs. They may as well be the last of a run, in place
// of one that was lost; so this holds for a while only.
func (c *Cluster) awaitsMore(g *group, pods []*memberPod, least int) bool {
	if len(g.done) == 0 || len(pods) >= least || len(pods)+len(g.done) <= least {
		return false
	}
	for h, m := range g.pods {
		if m.pod.Spec.NodeName != "" || c.standings.releases.has(h) {
			return false
		}
	}
	left := time.Until(pods[len(pods)-1].pod.CreationTimestamp.Add(nextRunFor))
	if left <= 0 {
		return false
	}
	if !g.recalled {
		g.recalled = true
		time.AfterFunc(left+time.Millisecond, func() {
			c.mu.Lock()
			g.recalled = false
			c.touch(g.id)
			c.mu.Unlock()
			c.kick()
		})
	}
	return true
}

// countOf is how many members a task has.
func countOf(roles []engine.Role, task string) int {
	n := 0
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
	for task, left := range minOf { // each for itself
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

func priorityOf(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// compareMembers orders a gang's pods: as they were created, then by name, shorter
// first, so that worker-2 goes before worker-10.
func compareMembers(a, b *v1.Pod) int {
	if c := a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	if len(a.Name) != len(b.Name) {
		return len(a.Name) - len(b.Name)
	}
	return strings.Compare(a.Name, b.Name)
}

// likeness tells which pods are interchangeable.
type likeness struct {
	// rules is equal for pods that nodes treat alike for all that core does not know;
	// shape for those of one task that ask for the same as well.
	rules, shape string
	apart        *apart
}

// likeness is worked out late: without gangs and queues nobody asks.
func (m *memberPod) likeness() *likeness {
	if m.like == nil {
		apart := apartOf(m.pod)
		rules := rulesOf(m.pod) + apart.String()
		m.like = &likeness{rules, m.Task + "\x00" + shapeOf(m.request) + rules, apart}
	}
	return m.like
}

// shapeOf is equal for requests that ask for the same.
func shapeOf(r *model.Request) string {
	q := *r
	if len(q.Affinity) == 0 {
		q.Labels = nil // they matter to others' rules only
	}
	return fmt.Sprintf("%+v", q)
}

// rulesOf is equal for pods that Kubernetes' own rules treat alike.
func rulesOf(pod *v1.Pod) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		b.WriteString("|s" + k + "=" + pod.Spec.NodeSelector[k])
	}
	if pod.Spec.Affinity != nil {
		b.WriteString("|a" + pod.Spec.Affinity.String())
	}
	for _, t := range pod.Spec.Tolerations {
		b.WriteString("|t" + t.Key + string(t.Operator) + t.Value + string(t.Effect))
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		b.WriteString("|d" + pod.Spec.TopologySpreadConstraints[i].String())
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			b.WriteString("|v" + v.PersistentVolumeClaim.ClaimName)
		}
	}
	return b.String()
}
