package replica

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/answer"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// Sight is what a caller may see by name.
type Sight = answer.Sight

// All sees everything: for readers of a dump.
type All struct{}

// MayListPods implements Sight.
func (All) MayListPods(string) bool { return true }

// MayListNodes implements Sight.
func (All) MayListNodes() bool { return true }

// MayListQueues implements Sight.
func (All) MayListQueues() bool { return true }

// Question is a manifest, and who asks.
type Question struct {
	Manifest []byte
	// Namespace is for objects that name none; empty: default.
	Namespace string
	Sight     Sight
}

// WhatIf says what would become of a manifest if it were created now: nothing is changed.
// The error names the field.
func (s *State) WhatIf(ctx context.Context, q Question) (*query.WhatIf, error) {
	if q.Sight == nil {
		q.Sight = All{}
	}
	objects, err := parse(q.Manifest)
	if err != nil {
		return nil, invalid("manifest", err.Error())
	}
	namespace := cmp.Or(q.Namespace, "default")
	for _, o := range objects {
		if ns := cmp.Or(o.GetNamespace(), namespace); !q.Sight.MayListPods(ns) && !slices.Contains(cluster, o.GetKind()) {
			return nil, &query.Error{Status: http.StatusForbidden, Reason: "Forbidden", Field: "metadata.namespace", Message: fmt.Sprintf("you may not list pods of namespace %q, so nothing is said about it", clip(ns))}
		}
	}
	x, err := NewRun(s.snapshot, s.limits)
	if err != nil {
		return nil, err
	}
	if _, err := x.Settle(ctx); err != nil { // what the scheduler is about to do anyway
		return nil, err
	}
	a := &asked{run: x, see: q.Sight, waited: x.Waiting()}
	r := &reader{ctx: ctx, replica: x.Replica, namespace: namespace, offline: s.offline, queues: q.Sight.MayListQueues()}
	if p := r.read(objects); p != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, invalid(p.field, p.message)
	}
	for _, p := range r.pods {
		if err := x.SetPod(p); err != nil {
			return nil, err
		}
	}
	if err := a.answer(ctx, r.pods); err != nil {
		return nil, err
	}
	if err := a.findDelays(ctx, s); err != nil {
		return nil, err
	}
	a.out.At = s.snapshot.At
	a.out.Refused = append(r.refused, a.out.Refused...)
	a.out.Assumed = append(r.assumed, a.out.Assumed...)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return &a.out, nil
}

func invalid(field, message string) *query.Error {
	return &query.Error{Status: http.StatusBadRequest, Reason: "Invalid", Field: field, Message: message}
}

// asked is a question that is being answered.
type asked struct {
	run *Run
	see Sight
	// waited are the gangs that waited before.
	waited []engine.ID
	gangs  []*candidate
	out    query.WhatIf
}

// candidate is a gang of the manifest.
type candidate struct {
	id engine.ID
	// name is the gang's, as victims name who they go for; kept, since it may end meanwhile.
	name string
	pod  *v1.Pod // one of its pods
	out  query.Outcome
	// refused is the start that was told when it came, if it had no place then.
	refused query.Start
	done    bool
}

// answer steps the replica until all gangs of the manifest have a place.
func (a *asked) answer(ctx context.Context, pods []*v1.Pod) error {
	x := a.run
	if _, err := x.Settle(ctx); err != nil {
		return err
	}
	a.out.Gangs = []query.Outcome{}
	for _, p := range pods {
		id := x.GangOf(p)
		switch {
		case id == "":
			a.out.Refused = append(a.out.Refused, a.notOurs(p))
		case !slices.ContainsFunc(a.gangs, func(c *candidate) bool { return c.id == id }):
			a.gangs = append(a.gangs, &candidate{id: id, pod: p})
		}
	}
	for _, c := range a.gangs {
		a.look(ctx, c, true)
	}
	why, err := x.Forward(ctx, func() bool {
		for _, c := range a.gangs {
			a.look(ctx, c, false)
		}
		return !slices.ContainsFunc(a.gangs, func(c *candidate) bool { return !c.done })
	})
	if err != nil {
		return err
	}
	for _, c := range a.gangs {
		if !c.done {
			c.out.Start = a.never(c, why)
		}
		a.displaced(c)
	}
	return nil
}

// notOurs says why no gang comes of a pod.
func (a *asked) notOurs(p *v1.Pod) query.Refused {
	out := query.Refused{Object: "Pod " + p.Namespace + "/" + p.Name, Message: "asks for no GPU and belongs to no gang and no queue: kube-scheduler's own rules place it, which are not asked here"}
	m, err := dialect.MembershipOf(p)
	switch {
	case len(p.Spec.SchedulingGates) > 0:
		out.Field, out.Message = "spec.schedulingGates", "the pod is not scheduled before its gates are removed"
	case err == nil && m.PodGroup != "":
		out.Field, out.Message = dialect.GroupField(m.Groups), fmt.Sprintf("PodGroup %s does not exist; add it to the manifest", m.PodGroup)
	case len(p.Spec.ResourceClaims) > 0:
		out.Field, out.Message = "spec.resourceClaims", "the pod's ResourceClaims do not exist: those of a template are made by a controller, which is not asked here"
	}
	return out
}

// look takes note of what has become of a gang; first: right after it came.
func (a *asked) look(ctx context.Context, c *candidate, first bool) {
	if c.done {
		return
	}
	started, has := a.run.Starts[c.id]
	if !has && !first {
		return
	}
	w := a.run.Why(ctx, "Pod", c.pod.Namespace, c.pod.Name, a.see, nil)
	if first {
		g, _ := a.run.Gang(c.id)
		if c.name, c.out.Gang = g.Name, w.Gang; c.out.Gang.Name == "" { // the engine has not seen it as a gang yet
			c.out.Gang.GangRef = query.GangRef{Namespace: c.pod.Namespace, Name: c.pod.Name}
		}
	}
	c.out.Members, c.out.Gang.Members = w.Gang.Members, nil
	if !a.see.MayListNodes() { // no pod names these nodes: they are the copy's
		for i := range c.out.Members {
			c.out.Members[i].Node, c.out.Members[i].Devices = "", nil
		}
	}
	if c.out.Members == nil {
		c.out.Members = []query.Member{}
	}
	if !has {
		reason := w.Reason
		c.out.Reason, c.out.Helps, c.refused = &reason, w.Helps, w.Start
		for i := range c.out.Helps { // there is nothing to look at or to change in the cluster
			if h := &c.out.Helps[i]; c.names(h.Command) {
				h.Command = ""
			}
		}
		return
	}
	c.done = true
	for i := range c.out.Members { // bound is said of what is done
		if m := &c.out.Members[i]; m.State == "bound" {
			m.State = "starting"
		}
	}
	c.out.Start = query.Start{Known: query.StartsNow, Nodes: a.nodes(c.out.Members)}
	if first {
		c.out.Gang.Phase = query.PhaseStarting
		return
	}
	c.out.Start.Known, c.out.Start.At, c.out.Start.Because = query.StartsForecast, &started, a.because()+a.run.guesses()
	c.out.Gang.ExpectedStart = &started
}

// names says whether a command names the candidate's pod or what made it.
func (c *candidate) names(command string) bool {
	for _, name := range []string{c.pod.Name, c.out.Gang.Owner} {
		if name != "" && slices.ContainsFunc(strings.Fields(command), func(word string) bool { return strings.HasSuffix(word, "/"+name) }) {
			return true
		}
	}
	return false
}

// runtimesUnknown is why no start is known beside gangs that run for ever, as far as is known.
func runtimesUnknown(gangs int) string {
	return fmt.Sprintf("of %s that run it is not known for how long: they declare no runtime, and none was learned", count(gangs, "gang"))
}

// because says what a start hangs on.
func (a *asked) because() string {
	x := a.run
	victims := 0
	for _, v := range x.evicted {
		victims += len(v)
	}
	switch {
	case x.ended > 0 && victims > 0:
		return fmt.Sprintf("by the expected ends of %s, the last at %s, and after %s were evicted", count(x.ended, "gang"), clock(x.lastEnd), count(victims, "pod"))
	case x.ended > 0:
		return fmt.Sprintf("by the expected ends of %s, the last at %s", count(x.ended, "gang"), clock(x.lastEnd))
	case victims > 0:
		return fmt.Sprintf("after the grace periods of %s that would be evicted", count(victims, "pod"))
	}
	return "by the passage of time alone"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// never says why it is not known when a gang starts.
func (a *asked) never(c *candidate, why Stop) query.Start {
	x := a.run
	switch unknown := x.unknownEnds(); {
	case c.out.Reason != nil && c.out.Reason.Class == explain.ForOwner.String():
		return query.Start{Known: query.StartsNever, Because: "its specification has to be changed first"}
	case c.refused.Known == query.StartsNever:
		return c.refused
	case c.out.Reason != nil && c.out.Reason.Never:
		return query.Start{Known: query.StartsNever, Because: "nothing that ends or is freed would let it start"}
	case why == StopSteps || why == StopHorizon:
		return query.Start{Known: query.StartsUnknown, Because: fmt.Sprintf("not before %s; the simulation goes no further", clock(x.Now()))}
	case unknown > 0:
		return query.Start{Known: query.StartsUnknown, Because: runtimesUnknown(unknown)}
	}
	return query.Start{Known: query.StartsNever, Because: "it would not start even after everything that runs and waits has ended"}
}

// nodes are the members' nodes, sorted, when the caller may list nodes.
func (a *asked) nodes(members []query.Member) (out []string) {
	if !a.see.MayListNodes() {
		return nil
	}
	for _, m := range members {
		if m.Node != "" {
			out = append(out, m.Node)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// displaced adds the gangs that are evicted for a gang of the manifest, and its outcome to
// the answer: also when it has ended by now.
func (a *asked) displaced(c *candidate) {
	victims := slices.Clone(a.run.evicted[c.name])
	slices.SortStableFunc(victims, func(a, b kubeengine.Victim) int { return cmp.Compare(a.Gang, b.Gang) })
	victims = slices.CompactFunc(victims, func(a, b kubeengine.Victim) bool { return a.Gang == b.Gang })
	for _, v := range victims {
		if a.see.MayListPods(v.Pod.Namespace) {
			c.out.Displaces = append(c.out.Displaces, refOf(v.Gang, v.Pod.Namespace))
		} else {
			c.out.DisplacesHidden++
		}
	}
	a.out.Gangs = append(a.out.Gangs, c.out)
}

// refOf is a gang's name, "namespace/name", as a reference.
func refOf(name, namespace string) query.GangRef {
	return query.GangRef{Namespace: namespace, Name: strings.TrimPrefix(name, namespace+"/")}
}

// maxDelays bounds how many waiting gangs are compared.
const maxDelays = 2000

// findDelays compares when gangs start that waited before, with and without the manifest.
// It goes as far as the simulation's steps do.
func (a *asked) findDelays(ctx context.Context, s *State) error {
	if len(a.waited) > maxDelays {
		a.out.Assumed = append(a.out.Assumed, fmt.Sprintf("%d gangs wait: which of them would start later was not looked for", len(a.waited)))
	}
	if len(a.waited) == 0 || len(a.gangs) == 0 || len(a.waited) > maxDelays {
		return nil
	}
	without, err := NewRun(s.snapshot, s.limits)
	if err != nil {
		return err
	}
	all := func(x *Run) func() bool {
		return func() bool {
			return !slices.ContainsFunc(a.waited, func(id engine.ID) bool { _, ok := x.Starts[id]; return !ok })
		}
	}
	names := make(map[engine.ID]engine.Gang, len(a.waited)) // some are gone at the end
	for _, id := range a.waited {
		names[id], _ = without.Gang(id)
	}
	if _, err := without.Forward(ctx, all(without)); err != nil {
		return err
	}
	started := func() bool {
		for _, id := range a.waited {
			_, with := a.run.Starts[id]
			if _, ok := without.Starts[id]; ok && !with {
				return false
			}
		}
		return true
	}
	if !started() {
		if _, err := a.run.Forward(ctx, started); err != nil {
			return err
		}
	}
	// Of several gangs of one manifest it is not told which delays whom: the first has them.
	first, unknown := &a.out.Gangs[0], 0
	for _, id := range a.waited {
		before, ok := without.Starts[id]
		after, starts := a.run.Starts[id]
		if !starts {
			after = a.run.Now() // not within the simulation
		}
		switch g := names[id]; {
		case !ok || starts && after.Sub(before) < tick:
		case after.Sub(before) < tick:
			unknown++ // the simulation did not come as far: it may start just as early
		case !a.see.MayListPods(g.Namespace):
			first.DelaysHidden++
		default:
			first.Delays = append(first.Delays, query.Delay{Gang: refOf(g.Name, g.Namespace), Seconds: int64(after.Sub(before) / time.Second)})
		}
	}
	if unknown > 0 {
		a.out.Assumed = append(a.out.Assumed, fmt.Sprintf("whether %s that wait would start later is not known: the simulation goes to %s only", count(unknown, "gang"), clock(a.run.Now())))
	}
	return nil
}
