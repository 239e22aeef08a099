package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Sight is what a caller may see by name: query.Caller.
type Sight = interface {
	MayListPods(namespace string) bool
	MayListNodes() bool
	MayListQueues() bool
}

// FindPod reads a pod from the API server: informers do not have pods that ended; nil when
// there is none.
type FindPod = func(ctx context.Context, namespace, name string) *v1.Pod

// subject is what is asked about: gangs, the first of which is answered for, or a reason why
// there is none.
type subject struct {
	gangs  []engine.ID
	reason explain.Reason
	// kind and name are the object's, for commands.
	kind, name string
	pod        *v1.Pod
}

// Why says why an object's pods wait, what would help and when they start. The caller must
// be allowed to list the pods of the namespace; what else they may not see is left out.
// The lock is held for several short parts: the gang may have changed in between, which
// makes the answer a little older, not wrong.
func (e *Engine) Why(ctx context.Context, kind, namespace, name string, see Sight, find FindPod) apiquery.Why {
	out := apiquery.Why{At: e.clock(), Helps: []apiquery.Help{}}
	var s subject
	var x examined
	e.lookFor(see, "why", func() {
		if s = e.subject(kind, namespace, name); len(s.gangs) == 1 {
			x = e.examine(s.gangs[0]) // the lock is waited for once
		}
	})
	if s.reason.Code == explain.NoObject && find != nil && podKind(kind) {
		if pod := find(ctx, namespace, name); pod != nil {
			s.pod, s.reason = pod, e.stranger(pod)
		}
	}
	if len(s.gangs) == 0 {
		return e.whyNot(&out, &s, namespace, name)
	}
	if len(s.gangs) > 1 {
		id := e.firstWaiting(s.gangs)
		e.lookFor(see, "why", func() { x = e.examine(id) })
	}
	if !x.there {
		s.reason = explain.Reason{Code: explain.Unseen}
		return e.whyNot(&out, &s, namespace, name)
	}
	if !x.explained {
		e.lookFor(see, "why", func() { x.explain(e) })
	}
	id, a, expect, contested := x.account.Gang.ID, x.account, x.expect, x.contested
	about := explain.Case{Reason: x.reason, Object: x.object}
	out.Gang = x.gang

	out.Found = true
	out.Gang.Position, out.Ahead = e.turnOf(see, id, a.Gang.Namespace, out.Gang.Phase == apiquery.PhaseWaiting)
	out.AheadHidden = max(0, out.Gang.Position-1-len(out.Ahead))
	if r := &about.Reason; r.Code == explain.Turn && out.Gang.Position > 0 {
		r.Ahead = out.Gang.Position - 1 // of those that are alike as well
	} else if !r.Is() && contested != "" {
		*r = explain.Reason{Code: explain.Contested, Detail: contested}
	}
	e.fillCase(&about, &a, &out.Gang, x.nextEnd)
	about.Idle = idleAnswer(x.idle, see)
	if see.MayListNodes() {
		about.Examples = exampleNames
	}
	out.Reason = ReasonAnswer(&about.Reason, see.MayListNodes())
	out.Helps = HelpAnswers(&about)
	out.Start = e.foresee(id, &expect, StartAnswer(&expect, see.MayListNodes()))
	if !see.MayListNodes() {
		out.Start.Nodes = nil
	}
	out.Gang.ExpectedStart = out.Start.At
	if see.MayListNodes() {
		out.Gang.Reserved = nodeNames(about.Reason.Prospect.Nodes)
	} else {
		hideNodes(&out.Gang)
	}
	if about.Reason.Is() {
		reason := out.Reason
		out.Gang.Reason = &reason
	}
	named := out.Ahead[:0]
	for _, g := range out.Ahead {
		if see.MayListPods(g.Namespace) {
			named = append(named, g)
		} else {
			out.AheadHidden++
		}
	}
	out.Ahead = named
	out.Others = len(s.gangs) - 1
	shown := e.queuesUpTo(turnsMost)
	for i := range shown.queues.Items {
		// Who names a queue that does not take their pods learns nothing of it by that.
		if q := &shown.queues.Items[i]; q.Name == a.Queue && (see.MayListQueues() || slices.Contains(shown.namespaces[q.Name], namespace)) {
			out.Queue = q
		}
	}
	out.Text = whyText(&out)
	return out
}

// examined is what is found out about a gang under the lock.
type examined struct {
	there   bool
	account engine.Account
	gang    apiquery.Gang
	// object is what its pods are changed through, contested whose record contradicts
	// another's.
	object, contested string
	explained         bool
	reason            explain.Reason
	expect            engine.Expectation
	idle              []idleClaim
	// nextEnd is when the first running gang is expected to end, in nanoseconds.
	nextEnd int64
}

// examineMost is up to how many members a gang is explained in the same hold of the lock:
// waiting for the lock takes longer than that.
const examineMost = 256

// examine looks at a gang. The caller holds the lock.
func (e *Engine) examine(id engine.ID) (x examined) {
	if x.account, x.there = e.core.Account(id); !x.there {
		return x
	}
	x.gang, _ = e.gangAnswer(id)
	x.gang.Members, x.gang.Reason, x.gang.ExpectedStart = e.members(id), nil, nil
	x.object, x.contested = e.objectOf(&x.account), e.contestOf(&x.account)
	if x.gang.Exist <= examineMost {
		x.explain(e)
	}
	return x
}

// explain finds why a gang waits. The caller holds the lock.
func (x *examined) explain(e *Engine) {
	x.reason, x.expect = e.reasonOf(x.account.Gang.ID, &x.gang)
	if x.gang.Placed < x.gang.Exist {
		x.nextEnd = e.nextEnd()
	}
	if x.reason.Class() == explain.ForCapacity && !x.reason.Never {
		x.idle = e.idleClaimsFor(&x.account.Gang)
	}
	x.explained = true
}

// podKind says whether a kind that is asked for can be a pod.
func podKind(kind string) bool { return workload.IsKind(kind, "Pod", "pods") || kind == "po" }

// subject finds what is asked about: a pod first, then a gang of the name, then objects that
// own pods. The caller holds the lock.
func (e *Engine) subject(kind, namespace, name string) subject {
	s := subject{kind: cmp.Or(kind, "Pod"), name: name}
	if podKind(kind) {
		if pod, err := e.pods.Pods(namespace).Get(name); err == nil {
			s.kind, s.pod = "Pod", pod
			if id, ok := e.core.Of(model.HolderID(pod.UID)); ok {
				s.gangs = []engine.ID{id}
			} else {
				s.reason = e.stranger(pod)
			}
			return s
		}
	}
	if workload.IsKind(kind, "Gang", "gangs") {
		if s.gangs = e.core.Named(namespace + "/" + name); len(s.gangs) > 0 {
			return s
		}
	}
	gangs, alone, exists := e.work.OwnedBy(kind, namespace, name)
	for _, id := range gangs {
		if _, known := e.core.Gang(id); known {
			s.gangs = append(s.gangs, id)
		}
	}
	switch {
	case len(s.gangs) > 0:
	case len(alone) > 0:
		s.reason = e.stranger(alone[0])
	case len(gangs) > 0:
		s.reason = explain.Reason{Code: explain.Unseen}
	case exists:
		s.reason = explain.Reason{Code: explain.NoPods}
	default:
		s.reason = explain.Reason{Code: explain.NoObject, Detail: strings.TrimSpace(kind + " " + namespace + "/" + name)}
	}
	return s
}

// stranger says why a pod is in no gang that is known here.
func (e *Engine) stranger(pod *v1.Pod) explain.Reason {
	gates := make([]string, 0, len(pod.Spec.SchedulingGates))
	for _, g := range pod.Spec.SchedulingGates {
		gates = append(gates, g.Name)
	}
	switch ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed; {
	case ended:
		return explain.Reason{Code: explain.Ended, Detail: string(pod.Status.Phase)}
	case pod.DeletionTimestamp != nil:
		return explain.Reason{Code: explain.Terminating}
	case !e.reader.Owns(pod.Spec.SchedulerName) && pod.Spec.NodeName == "":
		return explain.Reason{Code: explain.OtherScheduler, Detail: pod.Spec.SchedulerName}
	case len(gates) > 0:
		return explain.Reason{Code: explain.Gated, Detail: strings.Join(gates, ", ")}
	case e.reader.Owns(pod.Spec.SchedulerName) && e.Manages(pod):
		return explain.Reason{Code: explain.Unseen}
	case pod.Spec.NodeName != "":
		return explain.Reason{Code: explain.Unplanned, Detail: "it runs"}
	}
	r := explain.Reason{Code: explain.Unplanned}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			r.Detail = c.Message
		}
	}
	return r
}

// whyNot answers about what is no gang here.
func (e *Engine) whyNot(out *apiquery.Why, s *subject, namespace, name string) apiquery.Why {
	out.Gang = apiquery.Gang{GangRef: apiquery.GangRef{Namespace: namespace, Name: name}, Kind: s.kind}
	c := explain.Case{Reason: s.reason, Namespace: namespace, Object: strings.ToLower(s.kind) + "/" + name}
	out.Reason = ReasonAnswer(&c.Reason, false)
	out.Helps = HelpAnswers(&c)
	out.Start = apiquery.Start{Known: apiquery.StartsUnknown}
	switch s.reason.Code {
	case explain.NoObject, explain.Ended, explain.OtherScheduler:
		out.Start.Known = apiquery.StartsNever
	}
	out.Text = whyText(out)
	return *out
}

// whyText is the answer in one sentence.
func whyText(w *apiquery.Why) string {
	name := w.Gang.Namespace + "/" + w.Gang.Name
	text := name + ": " + w.Reason.Text
	if w.Reason.Code == "" {
		text = fmt.Sprintf("%s runs: %d of %d members have a place", name, w.Gang.Placed, w.Gang.Exist)
		if w.Gang.Phase == apiquery.PhaseStarting {
			text = fmt.Sprintf("%s starts: %d of %d members have a place, and are being bound", name, w.Gang.Placed, w.Gang.Exist)
		}
	}
	if w.Others > 0 {
		text += fmt.Sprintf("; %d more gangs are of the same object", w.Others)
	}
	return text + "."
}

// firstWaiting is the first gang, by submission, that has members without a place; else the
// first.
func (e *Engine) firstWaiting(ids []engine.ID) (first engine.ID) {
	if len(ids) == 1 {
		return ids[0]
	}
	e.look("why", func() {
		best := int64(0)
		waits := false
		for _, id := range ids {
			g, ok := e.core.Gang(id)
			if !ok {
				continue
			}
			members := 0
			for _, r := range g.Roles {
				members += len(r.Members)
			}
			w := e.core.Placed(id) < max(members, g.Min)
			if first == "" || w && !waits || w == waits && g.Submitted < best {
				first, best, waits = id, g.Submitted, w
			}
		}
	})
	return cmp.Or(first, ids[0])
}

// contestOf says whose record of a gang's pods contradicts another; empty when none does.
// The other pod is not named: it may be another tenant's.
func (e *Engine) contestOf(a *engine.Account) string {
	for _, m := range a.Members {
		if x := e.contested[string(m.Holder)]; x != nil && x.open {
			text, _, _ := strings.Cut(x.message, "; pod ")
			return text
		}
	}
	return ""
}

// objectOf is what a gang's pods are changed through, as kubectl names it; empty for pods
// that labels put together. The caller holds the lock.
func (e *Engine) objectOf(a *engine.Account) string {
	for _, m := range a.Members {
		if member := e.work.Member(m.Holder); member != nil {
			if kind, name := member.Kind(); kind != "Gang" {
				return strings.ToLower(kind) + "/" + name
			}
			return ""
		}
	}
	return ""
}

// fillCase adds what remedies need to know.
func (e *Engine) fillCase(c *explain.Case, a *engine.Account, g *apiquery.Gang, nextEnd int64) {
	c.Namespace, c.Queue, c.Priority, c.Size, c.Declared = g.Namespace, a.Queue, g.Priority, a.Exist, g.RuntimeSeconds > 0
	c.Lower, c.Above, c.Spell = a.Lower, a.Above, spell
	c.Fixed = len(a.Gang.Subgroups) > 0 || a.Gang.Min <= 1 || slices.ContainsFunc(a.Gang.Roles, func(r engine.Role) bool { return r.Min > 0 })
	now := e.clock().UnixNano()
	if nextEnd > now {
		c.NextEnd = time.Duration(nextEnd - now)
	}
	if a.RestUntil > now {
		c.Retry = time.Duration(a.RestUntil - now)
	}
}

// spell is an amount as Kubernetes writes it.
func spell(resource string, amount int64) (name, quantity string) {
	for n, q := range dialect.Quantities(map[arbiter.Resource]int64{arbiter.Resource(resource): amount}) {
		name, quantity = string(n), q.String()
	}
	return name, quantity
}

// ReasonAnswer is a reason as it travels, with names of nodes or without.
func ReasonAnswer(r *explain.Reason, nodes bool) apiquery.Reason {
	if !r.Is() {
		return apiquery.Reason{}
	}
	shown := *r
	if !nodes {
		shown = r.Anonymous()
	}
	out := apiquery.Reason{
		Code: r.Code.String(), Class: r.Class().String(), Never: r.Never, Need: r.Need, Exist: r.Exist, Placed: r.Placed,
		Role: r.Role, Subgroup: r.Subgroup, Level: r.Level, Queue: r.Queue, Namespace: r.Namespace, Resource: r.Resource,
		Want: r.Want, Limit: r.Limit, Used: r.Used, Ahead: r.Ahead, Detail: r.Detail, Text: shown.String(), Fit: r.Nodes.Fit(),
	}
	out.Nodes = causes(&r.Nodes, nodes)
	return out
}

// causes are a tally's lines as they travel.
func causes(t *explain.Tally, nodes bool) (out []apiquery.NodesCause) {
	for _, l := range t.Lines() {
		c := apiquery.NodesCause{Code: l.Code.String(), Nodes: l.Nodes, Need: l.Need, Best: l.Best, Detail: l.Detail, Text: l.String()}
		if nodes {
			c.Examples = exampleNames(l)
		}
		out = append(out, c)
	}
	return out
}

// exampleNames are the examples of a line.
func exampleNames(l explain.Line) []string { return nodeNames(l.Examples()) }

func nodeNames(ids []model.NodeID) (out []string) {
	for _, id := range ids {
		out = append(out, string(id))
	}
	return out
}

// hideNodes takes names of nodes, and devices by which nodes can be told, out of a gang, but
// for those where its own pods are: pods name them, and the caller may list the pods.
func hideNodes(g *apiquery.Gang) {
	g.Reserved = nil
	for i := range g.Members {
		if m := &g.Members[i]; m.State != "bound" { // the pod does not name it yet
			m.Node, m.Devices = "", nil
		}
	}
}

// HelpAnswers are the helps of a case as they travel.
func HelpAnswers(c *explain.Case) []apiquery.Help {
	out := []apiquery.Help{}
	for _, h := range explain.Helps(c) {
		out = append(out, apiquery.Help{Who: h.Who.String(), Text: h.Text, Command: h.Command})
	}
	return out
}

// StartAnswer is an expected start as it travels.
func StartAnswer(x *engine.Expectation, nodes bool) apiquery.Start {
	out := apiquery.Start{Because: x.Because}
	switch x.Known {
	case engine.Now:
		out.Known = apiquery.StartsNow
	case engine.Reserved:
		out.Known = apiquery.StartsReserved
	case engine.Foreseen:
		out.Known = apiquery.StartsForecast
	case engine.NotEver:
		out.Known = apiquery.StartsNever
	default:
		out.Known = apiquery.StartsUnknown
	}
	if x.At > 0 {
		at := time.Unix(0, x.At)
		out.At = &at
	}
	if nodes {
		out.Nodes = nodeNames(x.Nodes)
	}
	return out
}
