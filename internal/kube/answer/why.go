package answer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	apiquery "github.com/tangram-dev/tangram/api/query"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/claims"
)

// FindPod reads a pod from the API server: informers do not have pods that ended; nil when
// there is none.
type FindPod = func(ctx context.Context, namespace, name string) *v1.Pod

// Why says why an object's pods wait, what would help and when they start. The caller must
// be allowed to list the pods of the namespace; what else they may not see is left out.
// The lock is held for several short parts: the gang may have changed in between, which
// makes the answer a little older, not wrong.
func (a *Answers) Why(ctx context.Context, kind, namespace, name string, see Sight, find FindPod) apiquery.Why {
	out := apiquery.Why{At: a.Clock(), Helps: []apiquery.Help{}}
	var s subject
	var x examined
	a.lookFor(see, "why", func(v *View) {
		if s = a.subject(v, kind, namespace, name); len(s.gangs) == 1 {
			x = a.examine(v, s.gangs[0]) // the lock is waited for once
		}
	})
	if s.reason.Code == explain.NoObject && find != nil && podKind(kind) {
		if pod := find(ctx, namespace, name); pod != nil {
			s.reason = a.stranger(pod)
		}
	}
	if len(s.gangs) == 0 {
		return whyNot(&out, &s, namespace, name)
	}
	if len(s.gangs) > 1 {
		a.lookFor(see, "why", func(v *View) { x = a.examine(v, v.firstWaiting(s.gangs)) })
	}
	if !x.there {
		s.reason = explain.Reason{Code: explain.Unseen}
		return whyNot(&out, &s, namespace, name)
	}
	if !x.explained {
		a.lookFor(see, "why", func(v *View) { a.explain(v, &x) })
	}
	id, account, expect := x.account.Gang.ID, &x.account, x.expect
	about := explain.Case{Reason: x.reason, Object: x.object}
	out.Gang = x.gang

	out.Found = true
	out.Gang.Position, out.Ahead = a.turnOf(see, id, account.Gang.Namespace, out.Gang.Phase == apiquery.PhaseWaiting)
	out.AheadHidden = max(0, out.Gang.Position-1-len(out.Ahead))
	if r := &about.Reason; r.Code == explain.Turn && out.Gang.Position > 0 {
		r.Ahead = out.Gang.Position - 1 // of those that are alike as well
	} else if !r.Is() && x.contested != "" {
		*r = explain.Reason{Code: explain.Contested, Detail: x.contested}
	}
	fillCase(&about, account, &out.Gang, x.nextEnd, a.Clock())
	about.Idle = claims.Visible(x.idle, see.MayListPods)
	if see.MayListNodes() {
		about.Examples = exampleNames
	}
	out.Reason = ReasonAnswer(&about.Reason, see.MayListNodes())
	out.Helps = HelpAnswers(&about)
	out.Start = a.foresee(id, &expect, StartAnswer(&expect, see.MayListNodes()))
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
	shown := a.queuesUpTo(a.Ages.Order)
	for i := range shown.queues.Items {
		// To name a queue that does not take the pods does not show it.
		if q := &shown.queues.Items[i]; q.Name == account.Queue && (see.MayListQueues() || slices.Contains(shown.namespaces[q.Name], namespace)) {
			out.Queue = q
		}
	}
	out.Text = whyText(&out)
	return out
}

// examined is what is found out about a gang under the lock.
type examined struct {
	there   bool
	account coreanswer.Account
	gang    apiquery.Gang
	// object is what its pods are changed through, contested the record that contradicts.
	object, contested string
	explained         bool
	reason            explain.Reason
	expect            engine.Expectation
	idle              []claims.Idle
	// nextEnd is when the first running gang is expected to end, in nanoseconds.
	nextEnd int64
}

// examineMost is up to how many members a gang is explained in the same hold of the lock:
// waiting for the lock takes longer than that.
const examineMost = 256

// examine looks at a gang.
func (a *Answers) examine(v *View, id engine.ID) (x examined) {
	if x.account, x.there = v.Core.Gangs.Account(id); !x.there {
		return x
	}
	x.gang, _ = v.gang(id)
	x.gang.Members, x.gang.Reason, x.gang.ExpectedStart = v.members(id), nil, nil
	x.object, x.contested = v.objectOf(&x.account), v.contestOf(&x.account)
	if x.gang.Exist <= examineMost {
		a.explain(v, &x)
	}
	return x
}

// explain finds why a gang waits.
func (a *Answers) explain(v *View, x *examined) {
	x.reason, x.expect = a.reasonOf(v, x.account.Gang.ID, &x.gang)
	if x.gang.Placed < x.gang.Exist {
		x.nextEnd = a.nextEnd(v)
	}
	if x.reason.Class() == explain.ForCapacity && !x.reason.Never {
		x.idle = v.Claims.IdleFor(&x.account.Gang)
	}
	x.explained = true
}

// whyNot answers about what is no gang here.
func whyNot(out *apiquery.Why, s *subject, namespace, name string) apiquery.Why {
	out.Gang = apiquery.Gang{GangRef: apiquery.GangRef{Namespace: namespace, Name: name}, Kind: s.kind}
	c := explain.Case{Reason: s.reason, Namespace: namespace, Object: strings.ToLower(s.kind) + "/" + name}
	out.Reason = ReasonAnswer(&c.Reason, false)
	out.Helps = HelpAnswers(&c)
	out.Start = apiquery.Start{Known: apiquery.StartsUnknown}
	if s.reason.Code.Permanence() == explain.Fixed {
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

// contestOf says whose record of a gang's pods contradicts another; empty when none does.
// The other pod is not named: it may be another tenant's.
func (v *View) contestOf(a *coreanswer.Account) string {
	for _, m := range a.Members {
		if text := v.Contests.Message(string(m.Holder)); text != "" {
			text, _, _ = strings.Cut(text, "; pod ")
			return text
		}
	}
	return ""
}

// objectOf is what a gang's pods are changed through, as kubectl names it; empty for pods
// that labels put together.
func (v *View) objectOf(a *coreanswer.Account) string {
	for _, m := range a.Members {
		if member := v.Work.Member(m.Holder); member != nil {
			if kind, name := member.Kind(); kind != "Gang" {
				return strings.ToLower(kind) + "/" + name
			}
			return ""
		}
	}
	return ""
}

// fillCase adds what remedies need to know.
func fillCase(c *explain.Case, a *coreanswer.Account, g *apiquery.Gang, nextEnd int64, at time.Time) {
	c.Namespace, c.Queue, c.Priority, c.Size, c.Declared = g.Namespace, a.Queue, g.Priority, a.Exist, g.RuntimeSeconds > 0
	c.Lower, c.Above, c.Spell = a.Lower, a.Above, spell
	c.Devices, c.Hardware = dialect.CountsDevices, dialect.DescribesHardware
	c.Fixed = len(a.Gang.Subgroups) > 0 || a.Gang.Min <= 1 || slices.ContainsFunc(a.Gang.Roles, func(r engine.Role) bool { return r.Min > 0 })
	now := at.UnixNano()
	if nextEnd > now {
		c.NextEnd = time.Duration(nextEnd - now)
	}
	if a.RestUntil > now {
		c.Retry = time.Duration(a.RestUntil - now)
	}
}
