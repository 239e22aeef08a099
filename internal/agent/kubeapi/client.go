// Package kubeapi is a client for pods, nodes and events, and for the ResourceSlices and
// ResourceClaims of a DRA driver, and for nothing else. client-go's own clientset registers
// the types of every API group; in a program that runs on every node they would be a
// quarter of its memory. Its generic client (gentype) links client-go's fakes.
package kubeapi

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// scheme knows the kinds of core/v1 and resource.k8s.io/v1.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	_ = v1.AddToScheme(s) // knows no error
	_ = resourceapi.AddToScheme(s)
	metav1.AddToGroupVersion(s, v1.SchemeGroupVersion)
	return s
}()

var parameters = runtime.NewParameterCodec(scheme)

// Client talks to an API server.
type Client struct{ core, resources rest.Interface }

// New makes a client. Objects travel as protobuf where the server can.
func New(config *rest.Config) (*Client, error) {
	core, err := connect(config, "/api", v1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	resources, err := connect(config, "/apis", resourceapi.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return &Client{core, resources}, nil
}

// connect makes the client of one API group.
func connect(config *rest.Config, path string, group schema.GroupVersion) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = path, &group
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeProtobuf
	c, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	return c, nil
}

// The kinds.
type (
	Pods   = Objects[v1.Pod, v1.PodList]
	Nodes  = Objects[v1.Node, v1.NodeList]
	Slices = Objects[resourceapi.ResourceSlice, resourceapi.ResourceSliceList]
)

// Pods are the pods of a namespace, or of all when it is empty.
func (c *Client) Pods(namespace string) *Pods { return &Pods{c.core, "pods", namespace} }

// Nodes are the cluster's nodes.
func (c *Client) Nodes() *Nodes { return &Nodes{c.core, "nodes", ""} }

// Slices are the cluster's ResourceSlices.
func (c *Client) Slices() *Slices { return &Slices{c.resources, "resourceslices", ""} }

// Claim reads a ResourceClaim.
func (c *Client) Claim(ctx context.Context, namespace, name string) (*resourceapi.ResourceClaim, error) {
	claims := Objects[resourceapi.ResourceClaim, resourceapi.ResourceClaimList]{c.resources, "resourceclaims", namespace}
	return claims.Get(ctx, name, metav1.GetOptions{})
}

// NewRecorder writes events until the context ends, in the name of a component. One serves
// any number of senders; it counts repetitions of an event instead of writing them again.
func (c *Client) NewRecorder(ctx context.Context, component string) record.EventRecorder {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(events{c.core})
	return broadcaster.NewRecorder(scheme, v1.EventSource{Component: component})
}

// Objects reads and writes objects of one kind: T, in lists L.
type Objects[T, L any] struct {
	rest                rest.Interface
	resource, namespace string
}

// at puts what a request is about into it.
func (o *Objects[T, L]) at(r *rest.Request, options runtime.Object) *rest.Request {
	r = r.NamespaceIfScoped(o.namespace, o.namespace != "").Resource(o.resource)
	if options != nil {
		r = r.VersionedParams(options, parameters)
	}
	return r
}

// do sends a request and reads the answer.
func do[A any](ctx context.Context, r *rest.Request) (*A, error) {
	out := new(A)
	return out, r.Do(ctx).Into(any(out).(runtime.Object))
}

// List lists objects.
func (o *Objects[T, L]) List(ctx context.Context, options metav1.ListOptions) (*L, error) {
	return do[L](ctx, o.at(o.rest.Get(), &options))
}

// Watch follows objects.
func (o *Objects[T, L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return o.at(o.rest.Get(), &options).Watch(ctx)
}

// Get reads an object.
func (o *Objects[T, L]) Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error) {
	return do[T](ctx, o.at(o.rest.Get(), &options).Name(name))
}

// Create writes a new object.
func (o *Objects[T, L]) Create(ctx context.Context, object *T) (*T, error) {
	return do[T](ctx, o.at(o.rest.Post(), nil).Body(object))
}

// Update replaces an object.
func (o *Objects[T, L]) Update(ctx context.Context, object *T) (*T, error) {
	return do[T](ctx, o.at(o.rest.Put(), nil).Name(any(object).(metav1.Object).GetName()).Body(object))
}

// Patch changes an object, or a subresource of it.
func (o *Objects[T, L]) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, sub ...string) (*T, error) {
	return do[T](ctx, o.at(o.rest.Patch(kind), &options).Name(name).SubResource(sub...).Body(patch))
}

// Delete removes an object.
func (o *Objects[T, L]) Delete(ctx context.Context, name string) error {
	return o.at(o.rest.Delete(), nil).Name(name).Do(ctx).Error()
}

// events writes events in the namespaces that they name, for client-go's recorder.
type events struct{ rest rest.Interface }

func (e events) in(event *v1.Event) *Objects[v1.Event, v1.EventList] {
	return &Objects[v1.Event, v1.EventList]{e.rest, "events", event.Namespace}
}

// Create writes a new event.
func (e events) Create(event *v1.Event) (*v1.Event, error) {
	return e.in(event).Create(context.Background(), event)
}

// Update replaces an event.
func (e events) Update(event *v1.Event) (*v1.Event, error) {
	return e.in(event).Update(context.Background(), event)
}

// Patch changes an event: it happened again.
func (e events) Patch(event *v1.Event, patch []byte) (*v1.Event, error) {
	return e.in(event).Patch(context.Background(), event.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}
