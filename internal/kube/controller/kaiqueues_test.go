package controller

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// kaiObject is a KAI Queue below another, of so many GPUs.
func kaiObject(name, parent string, gpus int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": map[string]any{"name": name, "annotations": map[string]any{"tangram.dev/namespaces": "mine"}},
		"spec": map[string]any{"parentQueue": parent, "resources": map[string]any{"gpu": map[string]any{"quota": gpus, "limit": gpus}}},
	}}
}

// queueSources has Volcano's queues, and KAI's as the informer would hand them on.
func queueSources(t *testing.T, volcano tree, kai ...*unstructured.Unstructured) *sources {
	t.Helper()
	informer := func() cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(&cache.ListWatch{}, &scheduling.Queue{}, 0, cache.Indexers{byParent: index(parentOf)})
	}
	s := &sources{queues: informer(), kaiQueues: informer()}
	for _, q := range volcano {
		if err := s.queues.GetStore().Add(q); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range kai {
		q, err := kaiQueue(o)
		if err == nil {
			err = s.kaiQueues.GetStore().Add(q)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Volcano's objects may name KAI's queues: they are in the tree where Volcano has none of
// the name, with their limits and namespaces.
func TestKAIQueues(t *testing.T) {
	volcano := queuesOf("root default both")
	s := queueSources(t, volcano, kaiObject("org", "", 16), kaiObject("team", "org", 8), kaiObject("both", "", 1))
	all, own := s.tree()
	if len(all) != 5 || len(own) != 3 || all["both"] != volcano["both"] {
		t.Errorf("%v, of them Volcano's %v", all, own)
	}
	for _, tt := range []struct {
		queue, namespace string
		gpus             int64
		want             explain.Code
		holds            string
	}{
		{"team", "mine", 8, 0, ""},
		{"team", "mine", 9, explain.OverCapability, ""},
		{"team", "others", 1, explain.QueueForbidden, "QueueForbidden"},
		{"org", "mine", 1, explain.InnerQueue, "QueueHasQueues"},
		{"both", "others", 9, 0, ""},
		{"nobody", "mine", 1, explain.NoQueue, unknownQueue},
	} {
		amounts := gpus(tt.gpus)
		if why := all.refusal(demand{queue: tt.queue, namespace: tt.namespace, amounts: dialect.Amounts(amounts)}, load{}); why.Code != tt.want {
			t.Errorf("%d GPUs in %s: %s", tt.gpus, tt.queue, why.String())
		}
		held := ""
		if p := (&jobs{sources: s}).hold(tt.queue, tt.namespace); p != nil {
			held = p.Reason
		}
		if held != tt.holds {
			t.Errorf("a job of %s in %s: %q, want %q", tt.namespace, tt.queue, held, tt.holds)
		}
	}
	bad := kaiObject("bad", "", -7)
	if q, err := kaiQueue(bad); err != nil || len(q.(*scheduling.Queue).Spec.Capability) != 0 {
		t.Errorf("%v, %v", q, err)
	}
}
