package plugin

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/names"
)

// placeholdersMost is how long a member is not bound while placeholders of its gang are
// there: a controller that does not work must not keep gangs from starting.
const placeholdersMost = 10 * time.Second

// placeholders knows the pods that stand for gangs that lack nodes. An autoscaler that saw a
// member bound and its placeholder still there would add a node for the placeholder, so
// members are bound when these are gone: gpu-controller removes them once the scheduler does
// not ask for nodes any more. The zero value knows none.
type placeholders struct {
	mu   sync.Mutex
	of   map[string]map[string]bool // the names of placeholders by their gang's digest
	less chan struct{}              // closed when one is gone
}

// follow looks at pods of the namespace that is gpu-controller's: what a tenant calls a
// placeholder elsewhere is none.
func (p *placeholders) follow(pods cache.SharedIndexInformer, namespace string) error {
	look := func(then func(digest, name string)) func(any) {
		return func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok && pod.Namespace == namespace && pod.Labels[names.LabelPlaceholder] != "" {
				then(pod.Labels[names.LabelPlaceholderGang], pod.Name)
			}
		}
	}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: look(p.add), DeleteFunc: look(p.remove)})
	return err
}

func (p *placeholders) add(digest, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string]map[string]bool{}
	}
	if p.of[digest] == nil {
		p.of[digest] = map[string]bool{}
	}
	p.of[digest][name] = true
}

func (p *placeholders) remove(digest, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.of[digest], name); len(p.of[digest]) == 0 {
		delete(p.of, digest)
	}
	if p.less != nil {
		close(p.less)
		p.less = nil
	}
}

// left is how many placeholders of a gang there are, and a channel that is closed when there
// are fewer of any gang.
func (p *placeholders) left(digest string) (int, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.less == nil {
		p.less = make(chan struct{})
	}
	return len(p.of[digest]), p.less
}

// await waits until a gang has no placeholders, but not for ever; it returns how many are
// left.
func (p *placeholders) await(ctx context.Context, digest string, most time.Duration) int {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		n, less := p.left(digest)
		if n == 0 {
			return 0
		}
		select {
		case <-less:
		case <-ctx.Done():
			return n
		}
	}
}
