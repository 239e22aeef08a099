package memory

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/state"
)

// bench is a keeper on a fake API server, and what it logs.
type bench struct {
	*Keeper
	client *fake.Clientset
	log    bytes.Buffer
	ctx    context.Context
	now    time.Time
	fenced error
}

func newBench(t *testing.T, objects ...runtime.Object) *bench {
	t.Helper()
	b := &bench{client: fake.NewClientset(objects...), now: time.Unix(1_800_000_000, 0)}
	b.ctx = klog.NewContext(context.Background(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&b.log))))
	b.Keeper = b.another()
	return b
}

// another is the keeper of another process.
func (b *bench) another() *Keeper {
	return &Keeper{Client: b.client, Namespace: "ns", Name: "state", Identity: "me", MayWrite: func() error { return b.fenced }, Clock: func() time.Time { return b.now }}
}

func (b *bench) lines() int { return strings.Count(b.log.String(), "\n") }

func object(text string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "state"}, Data: map[string]string{Key: text}}
}

func learned(owed int64) *state.State {
	s := &state.State{At: 1_800_000_000_000_000_000}
	s.Learned.Queues.Queues = []arbiter.SavedQueue{{Queue: "a", Parent: "root", Owed: map[arbiter.Resource]int64{"gpu/nvidia": owed}}}
	return s
}

func (b *bench) writes() (n int) {
	for _, a := range b.client.Actions() {
		if a.GetVerb() == "update" || a.GetVerb() == "create" {
			n++
		}
	}
	return n
}

// TestKept: what one process saves another restores.
func TestKept(t *testing.T) {
	empty := object("")
	empty.Data = nil
	b := newBench(t, empty)
	if s := b.Load(b.ctx); s != nil {
		t.Errorf("restored %+v from an empty object", s)
	}
	if err := b.Save(b.ctx, learned(5)); err != nil {
		t.Fatal(err)
	}
	got := b.another().Load(b.ctx)
	if got == nil || got.Learned.Queues.Queues[0].Owed["gpu/nvidia"] != 5 {
		t.Fatalf("restored %+v: %s", got, b.log.String())
	}
	kept, err := b.client.CoreV1().ConfigMaps("ns").Get(b.ctx, "state", metav1.GetOptions{})
	if err != nil || kept.Annotations[names.AnnotationSavedBy] != "me" || kept.Annotations[names.AnnotationSavedAt] != "2027-01-15T08:00:00Z" {
		t.Errorf("%+v, %v", kept, err)
	}
}

// TestWrittenRarely: a state that differs in its times only is not written again.
func TestWrittenRarely(t *testing.T) {
	b := newBench(t, object(""))
	for i := range int64(10) {
		s := learned(5)
		s.At += i
		s.Learned.Queues.At = i
		if err := b.Save(b.ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	if b.writes() != 1 {
		t.Errorf("%d writes", b.writes())
	}
	if err := b.Save(b.ctx, learned(6)); err != nil || b.writes() != 2 {
		t.Errorf("%d writes, %v", b.writes(), err)
	}
}

// TestIgnored: an object that cannot be used is ignored, with one line in the log that
// says why, and written over.
func TestIgnored(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"garbage", "hello", "invalid character"},
		{"newer", `{"version":99}`, "newer version"},
		{"NaN", `{"version":1,"queues":[{"queue":"a","owed":{"gpu":NaN}}]}`, "invalid character"},
		{"1e300", `{"version":1,"queues":[{"queue":"a","owed":{"gpu":1e300}}]}`, "owed"},
		{"negative", `{"version":1,"queues":[{"queue":"a","held":{"gpu":-1}}]}`, "queues[0].held[gpu]"},
		{"too long", strings.Repeat(" ", 300<<10), "at most"},
		{"future", `{"version":1,"at":1900000000000000000}`, "in the future"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, object(c.text))
			if s := b.Load(b.ctx); s != nil {
				t.Errorf("restored %+v", s)
			}
			if b.lines() != 1 || !strings.Contains(b.log.String(), c.want) || !strings.Contains(b.log.String(), "ns/state") {
				t.Errorf("logged %s", b.log.String())
			}
			if err := b.Save(b.ctx, learned(5)); err != nil || b.another().Load(b.ctx) == nil {
				t.Errorf("not written over: %v", err)
			}
		})
	}
}

// TestFenced: a process that may not lead any more does not write, and a write that was
// under way when another took over fails.
func TestFenced(t *testing.T) {
	b := newBench(t, object(""))
	if err := b.Save(b.ctx, learned(1)); err != nil {
		t.Fatal(err)
	}
	b.fenced = errors.New("another replica may lead")
	if err := b.Save(b.ctx, learned(2)); !errors.Is(err, b.fenced) || b.writes() != 1 {
		t.Errorf("%d writes, %v", b.writes(), err)
	}
	b.fenced = nil
	// The fake API server does not compare versions, so the test says what a real one does.
	b.client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "state", errors.New("it was changed"))
	})
	b.object = b.object.DeepCopy()
	if err := b.Save(b.ctx, learned(3)); !apierrors.IsConflict(err) || b.object != nil {
		t.Errorf("%v", err)
	}
}

// TestFailures: what cannot be written is said once, not every minute, and so is that it
// can be again; what to do about a missing object is in the message.
func TestFailures(t *testing.T) {
	b := newBench(t)
	forbidden := true
	b.client.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return forbidden, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no"))
	})
	if b.Load(b.ctx) != nil || b.lines() != 1 {
		t.Errorf("logged %s", b.log.String())
	}
	for i := range int64(5) {
		if err := b.Save(b.ctx, learned(i)); err == nil {
			t.Fatal("no error")
		}
	}
	if b.lines() != 2 || !strings.Contains(b.log.String(), "kubectl -n ns create configmap state") {
		t.Errorf("logged %s", b.log.String())
	}
	forbidden = false
	if err := b.Save(b.ctx, learned(9)); err != nil || b.lines() != 3 || !strings.Contains(b.log.String(), "saved again") {
		t.Errorf("%v, logged %s", err, b.log.String())
	}
}

// TestUnreachable: an API server that does not answer costs a line, nothing else.
func TestUnreachable(t *testing.T) {
	b := newBench(t)
	b.client.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, context.DeadlineExceeded })
	if b.Load(b.ctx) != nil || b.lines() != 1 {
		t.Errorf("logged %s", b.log.String())
	}
}
