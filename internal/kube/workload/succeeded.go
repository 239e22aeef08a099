package workload

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Lookup is a gang of which it is not known which members have succeeded, and where its
// pods are: kube-scheduler's informer knows nothing of pods that ended.
type Lookup struct {
	Gang      engine.ID
	Namespace string
	Labels    labels.Set // on all its pods; may be empty
}

// Unsure says whether it must be looked up which members of a gang have succeeded, and
// where. Asked again it says no, until members went or Succeeded says that nothing could
// be found out.
func (w *Gangs) Unsure(id engine.ID) (Lookup, bool) {
	g := w.groups[id]
	if g == nil || !g.unsure {
		return Lookup{}, false
	}
	g.unsure = false
	l := Lookup{Gang: id}
	for _, m := range g.pods { // in all the same
		l.Namespace = m.Pod.Namespace
		if key, value := dialect.SharedLabel(m.Pod); key != "" {
			l.Labels = labels.Set{key: value}
		}
		break
	}
	return l, true
}

// Succeeded tells which pods that were looked up have succeeded; not ok when that could
// not be found out. Those that are being deleted belong to an earlier run.
func (w *Gangs) Succeeded(l Lookup, pods []v1.Pod, ok bool) {
	g := w.groups[l.Gang]
	if g == nil {
		return
	}
	if g.unsure = !ok; ok {
		g.done = map[model.HolderID]finished{}
		for i := range pods {
			p := &pods[i]
			m, err := dialect.MembershipOf(p)
			if err == nil && engine.ID(m.Key) == l.Gang && p.Status.Phase == v1.PodSucceeded && p.DeletionTimestamp == nil {
				g.done[model.HolderID(p.UID)] = finished{m, p.Labels}
			}
		}
	}
	w.touch(l.Gang)
}
