package workload

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// OwnedBy are the gangs of an object's pods, and such pods as are in no gang, for people who
// ask about the object by the name that they gave it. kind is that of the object, in any
// case, or its resource; empty: any. exists: the object is known, whether or not it has
// pods. Cost: the pods of the object, or of its namespace where no index has its kind.
func (w *Gangs) OwnedBy(kind, namespace, name string) (gangs []engine.ID, alone []*v1.Pod, exists bool) {
	seen := map[engine.ID]bool{}
	take := func(pod *v1.Pod) {
		m := w.members[model.HolderID(pod.UID)]
		if m == nil {
			alone = append(alone, pod)
			return
		}
		if !seen[m.group.id] {
			seen[m.group.id] = true
			gangs = append(gangs, m.group.id)
		}
	}
	key := namespace + "/" + name
	for _, k := range dialect.Owners() {
		if !IsKind(kind, k.Kind, k.Resource.Resource) {
			continue
		}
		if o := w.objects[k.Resource]; o != nil && o.Get(key) != nil {
			exists = true
		}
		for _, pod := range w.owners.pods[ownerKey(k.Resource, key)] { // sorted below
			take(pod)
		}
	}
	if len(gangs)+len(alone) == 0 {
		for _, pod := range w.controlledBy(kind, namespace, name) {
			exists = true
			take(pod)
		}
	}
	slices.Sort(gangs)
	slices.SortFunc(alone, compareMembers)
	return gangs, alone, exists
}

// controlledBy yields pods of a namespace whose controller has a kind and a name, or that a
// ReplicaSet of such a Deployment controls: kinds that say nothing about gangs.
func (w *Gangs) controlledBy(kind, namespace, name string) []*v1.Pod {
	all, _ := w.pods.Pods(namespace).List(labels.Everything()) // the store knows no error
	return slices.DeleteFunc(all, func(pod *v1.Pod) bool {
		ref := metav1.GetControllerOf(pod)
		if ref == nil {
			return true
		}
		is := ref.Name == name && IsKind(kind, ref.Kind, "")
		if hash := pod.Labels["pod-template-hash"]; !is && ref.Kind == "ReplicaSet" && hash != "" {
			is = ref.Name == name+"-"+hash && IsKind(kind, "Deployment", "deployments")
		}
		return !is
	})
}

// IsKind says whether what a person calls a kind is one: "RayCluster", "raycluster",
// "rayclusters"; empty is any.
func IsKind(said, kind, resource string) bool {
	said, _, _ = strings.Cut(said, ".") // jobs.batch
	return said == "" || strings.EqualFold(said, kind) || strings.EqualFold(said, resource) || strings.EqualFold(said, kind+"s")
}

// Kind is what a gang was made by, and its name: its PodGroup or controller, "Gang" for pods
// that labels put together, "Pod" for one that comes alone.
func (m *Member) Kind() (kind, name string) {
	switch {
	case m.Key == "":
		return "Pod", m.Pod.Name
	case m.Owner.Name != "":
		return m.Owner.Kind, m.Owner.Name
	case m.Object.Key != "":
		_, name, _ := strings.Cut(m.Object.Key, "/")
		for _, k := range dialect.Owners() {
			if k.Resource == m.Object.Resource {
				return k.Kind, name
			}
		}
		return "PodGroup", name
	}
	if ref := metav1.GetControllerOf(m.Pod); ref != nil {
		return ref.Kind, ref.Name
	}
	return "Gang", m.Pod.Labels[names.LabelGang]
}
