package state

import (
	"context"
	"errors"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// gpuNodes watches GPUNode objects, on clusters that have them. It is not one of
// the scheduler's informers: those never sync when their CRD is missing, and the
// scheduler would not start.
type gpuNodes struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandlerRegistration
	// absent: the API server does not serve GPUNodes (now).
	absent atomic.Bool
}

// newGPUNodes prepares to watch; its informer is still to be run. changed is called
// with the name of each GPUNode that came, changed or went; all when every node
// must be looked at again.
func newGPUNodes(source cache.ListerWatcher, changed func(string), all func()) (*gpuNodes, error) {
	g := &gpuNodes{informer: cache.NewSharedIndexInformer(source, &v1alpha1.GPUNode{}, 0, nil)}
	err := g.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		// Being refused once we have seen them is a passing fault: what is known stays.
		if !servesNone(err) || apierrors.IsForbidden(err) && g.handler != nil && g.handler.HasSynced() {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		// The reflector retries with growing pauses, so a CRD installed later is
		// noticed.
		if !g.absent.Swap(true) {
			klog.FromContext(ctx).Info("No GPUNodes here: devices are derived from node labels and allocatable", "cause", err.Error())
			all()
		}
	})
	if err != nil {
		return nil, err
	}
	notice := func(obj any) {
		if g.absent.Swap(false) {
			all()
		}
		if n, ok := object[*v1alpha1.GPUNode](obj); ok {
			changed(n.Name)
		}
	}
	g.handler, err = g.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notice, UpdateFunc: func(_, obj any) { notice(obj) }, DeleteFunc: notice,
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// servesNone says whether an error means that there are no GPUNodes to be had:
// no such resource, or not for us.
func servesNone(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err))
}

// get returns a node's GPUNode, or nil.
func (g *gpuNodes) get(name string) *v1alpha1.GPUNode {
	if g.absent.Load() {
		return nil
	}
	obj, ok, _ := g.informer.GetStore().GetByKey(name)
	if !ok {
		return nil
	}
	return obj.(*v1alpha1.GPUNode)
}

func (g *gpuNodes) synced() bool { return g.absent.Load() || g.handler.HasSynced() }

// GPUNodes lists and watches the GPUNodes of an API server.
func GPUNodes(config *rest.Config) (cache.ListerWatcher, error) {
	client, err := gpuNodeClient(config)
	if err != nil {
		return nil, err
	}
	resource := v1alpha1.GPUNodes.Resource
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := &v1alpha1.GPUNodeList{}
			err := client.Get().Resource(resource).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(list)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return client.Get().Resource(resource).VersionedParams(&o, metav1.ParameterCodec).Watch(ctx)
		},
	}, nil
}

func gpuNodeClient(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.GroupVersion = &v1alpha1.GroupVersion
	config.APIPath = "/apis"
	// Custom resources are served as JSON only.
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(config)
}
