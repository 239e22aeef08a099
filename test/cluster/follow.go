package cluster

import (
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Follower knows the pods of a cluster by a watch.
type Follower struct{ lister corelisters.PodLister }

// Follow watches all pods until ctx ends. Each change is given to see, in the order in which
// the API server made them; before is nil for a new pod, after for one that is gone. The
// Follower is up to date when see is called.
func (c *Cluster) Follow(ctx context.Context, see func(before, after *v1.Pod)) (*Follower, error) {
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	informer := factory.Core().V1().Pods()
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { see(nil, o.(*v1.Pod)) },
		UpdateFunc: func(o, n any) { see(o.(*v1.Pod), n.(*v1.Pod)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			see(o.(*v1.Pod), nil)
		},
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return &Follower{informer.Lister()}, nil
}

// Pods are all pods, by name.
func (f *Follower) Pods() []*v1.Pod {
	pods, _ := f.lister.List(labels.Everything()) // a store returns no error
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// Pod is a pod; nil when there is none.
func (f *Follower) Pod(namespace, name string) *v1.Pod {
	p, err := f.lister.Pods(namespace).Get(name)
	if err != nil {
		return nil
	}
	return p
}
