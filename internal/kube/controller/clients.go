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
	jobs      func(namespace string) *gentype.ClientWithList[*batch.Job, *batch.JobList]
	podGroups func(namespace string) *gentype.ClientWithList[*scheduling.PodGroup, *scheduling.PodGroupList]
	queues    func() *gentype.ClientWithList[*scheduling.Queue, *scheduling.QueueList]
	commands  func(namespace string) *gentype.ClientWithList[*bus.Command, *bus.CommandList]
	gpuNodes  func() *gentype.ClientWithList[*v1alpha1.GPUNode, *v1alpha1.GPUNodeList]
	kaiQueues lister[*unstructured.UnstructuredList]
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
	batchClient, err := restClient(config, scheme, batch.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	schedulingClient, err := restClient(config, scheme, scheduling.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	busClient, err := restClient(config, scheme, bus.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	ownClient, err := restClient(config, scheme, v1alpha1.GroupVersion)
	if err != nil {
		return nil, err
	}
	c.gpuNodes = func() *gentype.ClientWithList[*v1alpha1.GPUNode, *v1alpha1.GPUNodeList] {
		return gentype.NewClientWithList(v1alpha1.GPUNodes.Resource, ownClient, parameters, "",
			func() *v1alpha1.GPUNode { return &v1alpha1.GPUNode{} }, func() *v1alpha1.GPUNodeList { return &v1alpha1.GPUNodeList{} })
	}
	c.jobs = func(ns string) *gentype.ClientWithList[*batch.Job, *batch.JobList] {
		return gentype.NewClientWithList("jobs", batchClient, parameters, ns,
			func() *batch.Job { return &batch.Job{} }, func() *batch.JobList { return &batch.JobList{} })
	}
	c.podGroups = func(ns string) *gentype.ClientWithList[*scheduling.PodGroup, *scheduling.PodGroupList] {
		return gentype.NewClientWithList("podgroups", schedulingClient, parameters, ns,
			func() *scheduling.PodGroup { return &scheduling.PodGroup{} }, func() *scheduling.PodGroupList { return &scheduling.PodGroupList{} })
	}
	c.queues = func() *gentype.ClientWithList[*scheduling.Queue, *scheduling.QueueList] {
		return gentype.NewClientWithList("queues", schedulingClient, parameters, "",
			func() *scheduling.Queue { return &scheduling.Queue{} }, func() *scheduling.QueueList { return &scheduling.QueueList{} })
	}
	c.commands = func(ns string) *gentype.ClientWithList[*bus.Command, *bus.CommandList] {
		return gentype.NewClientWithList("commands", busClient, parameters, ns,
			func() *bus.Command { return &bus.Command{} }, func() *bus.CommandList { return &bus.CommandList{} })
	}
	return c, nil
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
