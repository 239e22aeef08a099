package plugin

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tangram-dev/tangram/api/names"
)

// TestPlaceholdersAwait: a member waits until all placeholders of its gang are gone, not for
// those of others, and not for ever.
func TestPlaceholdersAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &placeholders{}
		p.add("a", "1")
		p.add("a", "2")
		p.add("b", "3")
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			p.remove("a", "1")
			time.Sleep(time.Second)
			p.remove("a", "2")
			p.remove("a", "2") // a deletion that is told twice
		}()
		if n := p.await(t.Context(), "a", time.Minute); n != 0 || time.Since(began) != 2*time.Second {
			t.Errorf("%d are left after %v", n, time.Since(began))
		}
		if n := p.await(t.Context(), "c", time.Minute); n != 0 {
			t.Errorf("a gang without placeholders waits for %d", n)
		}
		began = time.Now()
		if n := p.await(t.Context(), "b", time.Minute); n != 1 || time.Since(began) != time.Minute {
			t.Errorf("%d are left after %v", n, time.Since(began))
		}
		synctest.Wait()
	})
}

// TestPlaceholdersFollow: only pods of the controller's namespace count, so that no tenant
// delays another's pods.
func TestPlaceholdersFollow(t *testing.T) {
	pod := func(namespace, name string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{names.LabelPlaceholder: "true", names.LabelPlaceholderGang: "a"}}}
	}
	client := fake.NewClientset(pod("ours", "x"), pod("tenant", "y"))
	factory := informers.NewSharedInformerFactory(client, 0)
	p := &placeholders{}
	if err := p.follow(factory.Core().V1().Pods().Informer(), "ours"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if n, _ := p.left("a"); n == 1 {
			break
		} else if n > 1 || time.Now().After(end) {
			t.Fatalf("%d placeholders are known", n)
		}
	}
	if err := client.CoreV1().Pods("ours").Delete(ctx, "x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := p.await(ctx, "a", time.Minute); n != 0 {
		t.Errorf("%d are left", n)
	}
}
