package state

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/internal/dialect"
)

func queue(name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "spec": spec}}
	o.SetName(name)
	return o
}

// inTree says which queues the engine's tree has.
func (s *gangSetup) inTree() string {
	s.Cluster.mu.Lock()
	defer s.Cluster.mu.Unlock()
	var names []string
	if s.gangs.engine != nil {
		for _, q := range s.gangs.engine.Tree().Status() {
			if q.Queue != arbiter.Root && q.Queue != arbiter.Default {
				names = append(names, q.Queue)
			}
		}
	}
	return strings.Join(names, " ")
}

// TestBadQueuesAlone: a queue that makes no sense is left out and its owner told; the
// others go on, also those that are changed later. Two updates that make a circle take
// out the circle alone.
func TestBadQueuesAlone(t *testing.T) {
	s := newGangSetup(t, 1, dialect.Queues)
	queues := s.groups[dialect.Queues]
	queues.Add(queue("a-child", map[string]any{"parent": "z"})) // before the one above it
	queues.Add(queue("bad", map[string]any{"parent": "nobody"}))
	queues.Add(queue("z", map[string]any{"weight": int64(2)}))
	s.eventually("the good ones are there", func() bool { return s.inTree() == "z a-child" })
	queues.Add(queue("later", map[string]any{}))
	s.eventually("one that comes later is there", func() bool { return s.inTree() == "later z a-child" })

	queues.Modify(queue("z", map[string]any{"parent": "a-child"}))
	s.eventually("a circle is left out", func() bool { return s.inTree() == "later" })
	queues.Modify(queue("a-child", map[string]any{}))
	s.eventually("a circle is opened", func() bool { return s.inTree() == "a-child later z" })

	said := func() string { s.mu.Lock(); defer s.mu.Unlock(); return strings.Join(s.reports, "\n") }
	s.eventually("the owner is told", func() bool { return said() != "" })
	if got, want := said(), `Queue bad: spec.parent: there is no queue "nobody"`; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}
