package controller

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// clients reach the API server, typed. Volcano's own client set would do the same
// for ten more kinds.
type clients struct {
	timing    Timing
	kube      kubernetes.Interface
	jobs      clientOf[*batch.Job, *batch.JobList]
	podGroups clientOf[*scheduling.PodGroup, *scheduling.PodGroupList]
	queues    clientOf[*scheduling.Queue, *scheduling.QueueList]
	commands  clientOf[*bus.Command, *bus.CommandList]
	gpuNodes  clientOf[*v1alpha1.GPUNode, *v1alpha1.GPUNodeList]
	kaiQueues lister[*unstructured.UnstructuredList]
}

// clientOf is a kind's client by namespace; "" for all namespaces, and for kinds without.
type clientOf[T object, L runtime.Object] func(namespace string) *gentype.ClientWithList[T, L]

type object interface {
	runtime.Object
	metav1.Object
}

// newScheme knows Volcano's kinds and our own, and Kubernetes' own, which events are
// about.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, batch.AddToScheme, scheduling.AddToScheme, bus.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func newClients(config *rest.Config, scheme *runtime.Scheme) (*clients, error) {
	c := &clients{}
	var err error
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c.kaiQueues = objects.Resource(dialect.KAIQueues)
	parameters := runtime.NewParameterCodec(scheme)
	own := map[schema.GroupVersion]rest.Interface{}
	for _, gv := range []schema.GroupVersion{batch.SchemeGroupVersion, scheduling.SchemeGroupVersion, bus.SchemeGroupVersion, v1alpha1.GroupVersion} {
		if own[gv], err = restClient(config, scheme, gv); err != nil {
			return nil, err
		}
	}
	c.jobs = typed[batch.Job, batch.JobList]("jobs", own[batch.SchemeGroupVersion], parameters)
	c.podGroups = typed[scheduling.PodGroup, scheduling.PodGroupList]("podgroups", own[scheduling.SchemeGroupVersion], parameters)
	c.queues = typed[scheduling.Queue, scheduling.QueueList]("queues", own[scheduling.SchemeGroupVersion], parameters)
	c.commands = typed[bus.Command, bus.CommandList]("commands", own[bus.SchemeGroupVersion], parameters)
	c.gpuNodes = typed[v1alpha1.GPUNode, v1alpha1.GPUNodeList](v1alpha1.GPUNodes.Resource, own[v1alpha1.GroupVersion], parameters)
	return c, nil
}

// typed is the client of a kind whose objects are *T, in lists that are *L.
func typed[T, L any, PT interface {
	*T
	object
}, PL interface {
	*L
	runtime.Object
}](resource string, client rest.Interface, parameters runtime.ParameterCodec) clientOf[PT, PL] {
	return func(namespace string) *gentype.ClientWithList[PT, PL] {
		return gentype.NewClientWithList(resource, client, parameters, namespace, func() PT { return new(T) }, func() PL { return new(L) })
	}
}

func restClient(config *rest.Config, scheme *runtime.Scheme, gv schema.GroupVersion) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &gv, "/apis"
	// Custom resources are served as JSON only.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = salvaging{serializer.NewCodecFactory(scheme).WithoutConversion()}
	return rest.RESTClientFor(config)
}

// lister is what an informer needs of a typed client.
type lister[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// newInformer keeps all objects of a kind in memory.
func newInformer[L runtime.Object](source lister[L], kind runtime.Object, indexes cache.Indexers) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return source.List(ctx, o)
		},
		WatchFuncWithContext: source.Watch,
	}, kind, 0, indexes)
}
