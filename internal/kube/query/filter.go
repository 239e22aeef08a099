package query

import (
	"iter"
	"maps"
	"slices"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// What a caller may not list is taken out of answers, and counted. Answers are shared
// between callers, so what is changed is copied first.

// prefetch asks about many namespaces at once, where the caller can.
func prefetch(c Caller, namespaces iter.Seq[string]) {
	if p, ok := c.(interface{ prefetch([]string) }); ok {
		p.prefetch(slices.Collect(namespaces))
	}
}

// filterNodes takes out nodes, holders and gangs that the caller may not list.
func filterNodes(n apiquery.Nodes, c Caller) apiquery.Nodes {
	if !c.MayListNodes() {
		n.Hidden, n.Items, n.Removed = len(n.Items), []apiquery.Node{}, nil
		return n
	}
	namespaces := map[string]bool{}
	for i := range n.Items {
		eachHolder(&n.Items[i], func(h *apiquery.Holder) { namespaces[h.Pod.Namespace] = true })
		if kept := n.Items[i].KeptFor; kept != nil {
			namespaces[kept.Namespace] = true
		}
	}
	prefetch(c, maps.Keys(namespaces))
	items := make([]apiquery.Node, len(n.Items))
	for i := range n.Items {
		items[i] = filterNode(n.Items[i], c)
	}
	n.Items = items
	return n
}

func eachHolder(n *apiquery.Node, f func(*apiquery.Holder)) {
	for i := range n.Devices {
		for j := range n.Devices[i].Holders {
			f(&n.Devices[i].Holders[j])
		}
	}
}

func filterNode(n apiquery.Node, c Caller) apiquery.Node {
	if n.KeptFor != nil && !c.MayListPods(n.KeptFor.Namespace) {
		n.KeptFor = nil
	}
	hides := false
	eachHolder(&n, func(h *apiquery.Holder) { hides = hides || !c.MayListPods(h.Pod.Namespace) })
	if !hides {
		return n
	}
	n.Devices = slices.Clone(n.Devices)
	for i := range n.Devices {
		d := &n.Devices[i]
		var seen []apiquery.Holder
		for _, h := range d.Holders {
			if c.MayListPods(h.Pod.Namespace) {
				seen = append(seen, h)
			} else {
				d.Hidden++
			}
		}
		d.Holders = seen
	}
	return n
}

// visibleQueues says which queues a caller may see: all, or those in which they have
// pods, and the queues above these.
func visibleQueues(queues *apiquery.Queues, namespaces map[string][]string, c Caller) func(string) bool {
	if c.MayListQueues() {
		return func(string) bool { return true }
	}
	all := slices.Concat(slices.Collect(maps.Values(namespaces))...)
	slices.Sort(all)
	prefetch(c, slices.Values(slices.Compact(all)))
	seen := map[string]bool{}
	for i := range queues.Items {
		name := queues.Items[i].Name
		seen[name] = slices.ContainsFunc(namespaces[name], c.MayListPods)
	}
	return func(name string) bool { return seen[name] }
}

// filterQueues takes out queues that the caller may not see.
func filterQueues(q apiquery.Queues, sees func(string) bool) apiquery.Queues {
	items := []apiquery.Queue{}
	for i := range q.Items {
		if sees(q.Items[i].Name) {
			items = append(items, q.Items[i])
		} else {
			q.Hidden++
		}
	}
	q.Items = items
	return q
}

// filterGang takes out of a gang that the caller may see what they may not.
func filterGang(g apiquery.Gang, c Caller) apiquery.Gang {
	if !c.MayListNodes() {
		g.Reserved = nil
		g.Members = slices.Clone(g.Members)
		for i := range g.Members {
			if m := &g.Members[i]; m.State != "bound" { // the pod names no node yet
				m.Node, m.Devices = "", nil
			}
		}
		if g.Reason != nil && len(g.Reason.Nodes) > 0 {
			r := *g.Reason
			r.Nodes = slices.Clone(r.Nodes)
			for i := range r.Nodes {
				r.Nodes[i].Examples = nil
			}
			g.Reason = &r
		}
	}
	return g
}

// filterTimeline takes out events of gangs that the caller may not see, and says whom an
// eviction makes room for only to those who may see both.
func filterTimeline(t apiquery.Timeline, c Caller) apiquery.Timeline {
	namespaces := map[string]bool{}
	for i := range t.Items {
		namespaces[t.Items[i].Gang.Namespace] = true
		if other := t.Items[i].For; other != nil {
			namespaces[other.Namespace] = true
		}
	}
	prefetch(c, maps.Keys(namespaces))
	items := []apiquery.Event{}
	for _, e := range t.Items {
		if !c.MayListPods(e.Gang.Namespace) {
			t.Hidden++
			continue
		}
		switch {
		case e.Kind != apiquery.EventEvicted || e.For == nil:
		case c.MayListPods(e.For.Namespace):
			e.Text += " for " + e.For.Namespace + "/" + e.For.Name
		default:
			e.For = nil
			e.Text += " for work of another namespace"
		}
		if !c.MayListNodes() {
			e.Nodes = nil
		}
		items = append(items, e)
	}
	t.Items = items
	return t
}

// latest bounds the events that the caller may see to the latest so many; 0: all. It counts
// after the filter: what others do must not push a caller's own events out of the answer.
// Asked for what came since a version, what is left out is lost.
func latest(t apiquery.Timeline, most int, since bool) apiquery.Timeline {
	if n := len(t.Items); most > 0 && n > most {
		t.Items = t.Items[n-most:]
		t.Lost = t.Lost || since
	}
	return t
}
