package workload

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
)

// Company are the pods that go with some when these are evicted: those that use the same
// ResourceClaims, whose devices come free when all of them are gone, and the other members of
// their gangs, which would be left in part. The pods themselves are not among them.
func (w *Gangs) Company(pods []*Member) (out []*v1.Pod) {
	seen := map[model.HolderID]bool{}
	var next []*Member
	add := func(m *Member) {
		if h := model.HolderID(m.Pod.UID); !seen[h] {
			seen[h] = true
			next = append(next, m)
		}
	}
	for _, m := range pods {
		add(m)
	}
	for own := len(next); len(next) > 0; own-- {
		m := next[0]
		next = next[1:]
		if own <= 0 {
			out = append(out, m.Pod)
		}
		if m.Ask == nil {
			continue
		}
		for _, p := range m.Ask.With {
			h := model.HolderID(p.UID)
			other := w.members[h]
			if other == nil { // no pod of a gang or a queue
				if !seen[h] {
					seen[h] = true
					out = append(out, p)
				}
				continue
			}
			for _, o := range other.group.sorted() {
				if o.Pod.Spec.NodeName != "" {
					add(o)
				}
			}
		}
	}
	return out
}

// companySays makes a gang that shares claims as hard to evict as the hardest of those that
// go with it: nobody is evicted for who may not evict him, and who shares is not safe for
// that.
func (w *Gangs) companySays(pods []*Member, gang *engine.Gang) {
	for _, p := range w.Company(pods) {
		if priority := priorityOf(p); !gang.InCompany || priority > gang.Company {
			gang.InCompany, gang.Company = true, priority
		}
		m := w.members[model.HolderID(p.UID)]
		gang.Preemptible = gang.Preemptible && !w.reader.Protected(p) && (m == nil || m.Preemptible)
	}
}
