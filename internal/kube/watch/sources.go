package watch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Sources are where objects come from that only some clusters have.
type Sources struct {
	GPUNodes cache.ListerWatcher
	// NodeTopologies lists and watches NodeResourceTopologies; nil: they are not watched.
	NodeTopologies cache.ListerWatcher
	// Groups lists and watches the objects that describe gangs and queues, unstructured.
	Groups map[schema.GroupVersionResource]cache.ListerWatcher
	// Topologies lists and watches objects of dialect.Topologies; nil: they are not watched.
	Topologies map[schema.GroupVersionResource]cache.ListerWatcher
}

// APISources lists and watches the objects of an API server.
func APISources(config *rest.Config) (Sources, error) {
	gpuNodes, err := gpuNodeSource(config)
	if err != nil {
		return Sources{}, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return Sources{}, err
	}
	of := func(kinds ...schema.GroupVersionResource) map[schema.GroupVersionResource]cache.ListerWatcher {
		out := map[schema.GroupVersionResource]cache.ListerWatcher{}
		for _, kind := range kinds {
			out[kind] = objectSource(objects, kind)
		}
		return out
	}
	groups := append(dialect.Watched(), dialect.Queues, dialect.KAIQueues, dialect.Priorities)
	return Sources{GPUNodes: gpuNodes, NodeTopologies: objectSource(objects, dialect.NodeTopologies), Groups: of(groups...), Topologies: of(dialect.Topologies()...)}, nil
}

func objectSource(objects dynamic.Interface, kind schema.GroupVersionResource) cache.ListerWatcher {
	client := objects.Resource(kind)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			return client.Watch(ctx, o)
		},
	}
}

func gpuNodeSource(config *rest.Config) (cache.ListerWatcher, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &v1alpha1.GroupVersion, "/apis"
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON // all that custom resources have
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
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
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.Watch = true
			return client.Get().Resource(resource).VersionedParams(&o, metav1.ParameterCodec).Watch(ctx)
		},
	}, nil
}
