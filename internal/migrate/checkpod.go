package migrate

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// scheduler checks which scheduler a pod asks for: another system's that is not a profile.
func (c *checker) scheduler(e entry) {
	name := e.Text()
	if slices.Contains(c.profiles, name) {
		c.Known["schedulerName"]++
		return
	}
	others := []string{"volcano", "hami", "vgpu", "koord", "runai", "kai"}
	if slices.ContainsFunc(others, func(w string) bool { return strings.Contains(name, w) }) {
		c.find(e.Node, e.Path, "schedulerName", Unknown,
			fmt.Sprintf("%q is not a profile: add one of the name to the configuration (profiles, or scheduler.profiles of the chart), or write %s", name, names.SchedulerName))
	}
}

// pod lets Tangram's own readers look at a pod or a pod's template.
func (c *checker) pod(t node) {
	object, err := asObject(t)
	if err != nil {
		c.Problems = append(c.Problems, t.Problem("%v", err))
		return
	}
	pod := &v1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, pod); err != nil {
		c.Problems = append(c.Problems, t.Problem("not a pod: %v", err))
		return
	}
	pod.Spec.NodeName = "" // what it asks for, not what it was given
	_, ask := dialect.RequestOn(pod, c.levels)
	_, gang := dialect.MembershipOf(pod)
	for _, err := range []error{ask, gang} {
		if err == nil {
			continue
		}
		field, text, ok := strings.Cut(err.Error(), ": ")
		if !ok {
			field, text = "spec", err.Error()
		}
		full := t.Below(field).Path
		if c.reported[full+"|"+Refused] {
			continue
		}
		c.find(locate(t, field), full, "tangram", Malformed, text)
	}
}

// locate is the value of a field as errors write it, metadata.labels[a/b] or spec.weight; t when it is not there.
func locate(t node, field string) node {
	path, key, keyed := strings.Cut(strings.TrimSuffix(field, "]"), "[")
	at := t
	for part := range strings.SplitSeq(path, ".") {
		at = at.Get(part)
	}
	if keyed {
		at = at.Get(key)
	}
	if !at.Has() {
		return t
	}
	return at
}
