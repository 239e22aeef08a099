package workload

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// reading is what a PodGroup, or a controller, was read as. It is kept because each pod of a
// gang asks for it several times, and an object may have a thousand subgroups.
type reading struct {
	uid     types.UID
	version string
	levels  topology.Levels
	group   dialect.Group
	err     error
}

// readGroup is what an object of dialect.Owners says of its gang. What the result refers to is not
// to be changed.
func (w *Gangs) readGroup(of dialect.Object, object *unstructured.Unstructured) (dialect.Group, error) {
	levels, version := w.reader.Levels(), object.GetResourceVersion()
	key := ownerKey(of.Resource, of.Key)
	if r := w.readings[key]; r != nil && version != "" && r.version == version && r.uid == object.GetUID() && slices.Equal(r.levels, levels) {
		return r.group, r.err
	}
	r := &reading{uid: object.GetUID(), version: version, levels: slices.Clone(levels)}
	r.group, r.err = dialect.GroupOf(object, levels)
	w.parsed++
	r.group.Subgroups = slices.Clip(r.group.Subgroups)
	w.readings[key] = r
	return r.group, r.err
}
