package engine

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/internal/dialect"
)

func queue(name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "spec": spec}}
	o.SetName(name)
	return o
}

// inTree says which queues core's tree has.
func (s *setup) inTree() string {
	var names []string
	s.do("test", func(*driver, time.Time) {
		for _, q := range s.driver.core.Queues.Accounts() {
			if q.Queue != arbiter.Root && q.Queue != arbiter.Default {
				names = append(names, q.Queue)
			}
		}
	})
	return strings.Join(names, " ")
}

// TestBadQueuesAlone: an invalid queue is left out and reported; the others go on, also
// those that are changed later. Two updates that make a circle take out the circle
// alone.
func TestBadQueuesAlone(t *testing.T) {
	s := newSetup(t, 1, dialect.Queues)
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

	if turn := s.Step(); s.said() != "" || turn.Next > queuePatience {
		t.Errorf("reported at once: %q, or looked at after %s", s.said(), turn.Next)
	}
	s.after(queuePatience)
	if got, want := s.said(), `Queue bad: InvalidQueue: spec.parent: there is no queue "nobody"`; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	if s.after(time.Minute); strings.Count(s.said(), "\n") > 0 {
		t.Errorf("told twice: %q", s.said())
	}
}

// TestQueueOfPod: a pod of a queue that does not exist is told so, and starts when the
// queue comes; a closed one keeps its pods waiting.
func TestQueueOfPod(t *testing.T) {
	s := newSetup(t, 1, dialect.Queues)
	p := s.member("p", "", 0, 1)
	p.Labels[names.LabelQueue] = "research"
	s.add(p)
	if n := s.told(); len(n) != 1 || n[0].Reason != "InvalidQueue" || n[0].Text != `there is no queue "research"` {
		t.Errorf("told %+v", n)
	}
	s.groups[dialect.Queues].Add(queue("research", map[string]any{}))
	s.eventually("it starts", func() bool { s.Step(); return s.gate.Released(p) })
}

// TestNamespaceQuota: the annotation of a Namespace limits its pods; an invalid one is
// reported and limits nothing.
func TestNamespaceQuota(t *testing.T) {
	s := newSetup(t, 1)
	space := func(quota string) {
		s.addSpace(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: map[string]string{names.AnnotationQuota: quota}}})
	}
	space(`nvidia.com/gpu=2`)
	if s.Step(); s.said() != "" {
		t.Fatalf("reported %q", s.said())
	}
	a, b := s.member("a", "", 0, 2), s.member("b", "", 0, 1)
	s.add(a, b)
	s.Step()
	if !s.gate.Released(a) || s.gate.Released(b) {
		t.Errorf("released %v and %v", s.gate.Released(a), s.gate.Released(b))
	}
	if n := s.told(); n[0].Reason != "WaitingForQuota" {
		t.Errorf("told %+v", n)
	}
	space("nonsense")
	if s.Step(); !strings.Contains(s.said(), "InvalidQuota") || !s.gate.Released(b) {
		t.Errorf("reported %q, released %v", s.said(), s.gate.Released(b))
	}
}
