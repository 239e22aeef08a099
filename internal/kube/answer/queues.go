package answer

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// shownQueues are the queues at a time.
type shownQueues struct {
	queues     apiquery.Queues
	namespaces map[string][]string // those with gangs in a queue that takes them, or in one below it
}

// Queues are all queues, and the namespaces that have gangs in them or in queues below. The
// answer is shared and must not be changed.
func (a *Answers) Queues() (queues apiquery.Queues, namespaces map[string][]string) {
	p := a.queuesUpTo(a.Ages.Lists)
	return p.queues, p.namespaces
}

// queuesUpTo are the queues as they were so long ago, or later.
func (a *Answers) queuesUpTo(most time.Duration) shownQueues {
	return a.queues.show(a, ages{a.Ages.Lists, most}, a.drawQueues, nil)
}

func (a *Answers) drawQueues() (p shownQueues) {
	now := a.Clock()
	var accounts []arbiter.Account
	var gangs []coreanswer.Listed
	a.look(func(v *View) { accounts = v.Core.Queues.Accounts() })
	a.look(func(v *View) { gangs = v.Core.Gangs.List() })
	work := workOf(gangs)
	a.look(func(v *View) {
		for queue, w := range work { // each for itself
			for namespace := range w.namespaces {
				if !v.Core.Queues.Takes(queue, namespace) {
					delete(w.namespaces, namespace) // to name a queue does not show it
				}
			}
		}
	})
	p.queues = apiquery.Queues{At: now, Items: make([]apiquery.Queue, len(accounts))}
	p.namespaces = map[string][]string{}
	place := map[string]int{}
	for i := range accounts {
		place[accounts[i].Queue] = i
		p.queues.Items[i] = queueAnswer(&accounts[i])
	}
	for i := len(accounts) - 1; i >= 0; i-- { // children before parents
		q := &p.queues.Items[i]
		w := work[q.Name]
		q.Running += w.running
		q.Waiting += w.waiting
		p.namespaces[q.Name] = append(p.namespaces[q.Name], slices.Sorted(maps.Keys(w.namespaces))...)
		if above, ok := place[q.Parent]; ok && q.Parent != "" {
			parent := &p.queues.Items[above]
			parent.Running += q.Running
			parent.Waiting += q.Waiting
			p.namespaces[parent.Name] = append(p.namespaces[parent.Name], p.namespaces[q.Name]...)
		}
		if q.State == "Closed" && q.Running > 0 {
			q.State = "Closing"
		}
	}
	return p
}

// queueWork is what runs and waits in one queue, and of which namespaces.
type queueWork struct {
	running, waiting int
	namespaces       map[string]bool
}

// workOf counts gangs by queue.
func workOf(gangs []coreanswer.Listed) map[string]queueWork {
	out := map[string]queueWork{}
	for i := range gangs {
		w, known := out[gangs[i].Queue]
		if !known {
			w.namespaces = map[string]bool{}
		}
		if gangs[i].Waits {
			w.waiting++
		} else {
			w.running++
		}
		w.namespaces[gangs[i].Namespace] = true
		out[gangs[i].Queue] = w
	}
	return out
}

// queueAnswer is a queue as it travels, without what runs and waits.
func queueAnswer(a *arbiter.Account) apiquery.Queue {
	q := apiquery.Queue{Name: a.Queue, Parent: a.Parent, Weight: a.Weight, State: "Open", Resources: []apiquery.QueueResource{}, GPUs: apiquery.QueueResource{Resource: "gpus"}}
	if a.Closed {
		q.State = "Closed"
	}
	owed := int64(0)
	for _, l := range a.Lines {
		line := apiquery.QueueResource{Resource: dialect.ResourceName(l.Resource), Entitled: l.Share, Used: l.Used, Wanted: l.Wanted, Guarantee: limit(l.Guarantee), Capability: limit(l.Capability)}
		q.Resources = append(q.Resources, line)
		if strings.HasPrefix(string(l.Resource), string(engine.GPU(""))) {
			q.GPUs.Entitled += l.Share
			q.GPUs.Used += l.Used
			q.GPUs.Wanted += l.Wanted
			q.GPUs.Guarantee, q.GPUs.Capability = sum(q.GPUs.Guarantee, line.Guarantee), sum(q.GPUs.Capability, line.Capability)
			owed += l.Owed
		}
	}
	q.Balance = float64(owed) / (1000 * 1000) // thousandths of a GPU times milliseconds
	return q
}

// limit is an amount that may not be given.
func limit(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// sum adds limits, of which either may not be given.
func sum(a, b *int64) *int64 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	n := *a + *b
	return &n
}
