// Package kubeapi is a client for pods, nodes and events, and for the ResourceSlices and
// ResourceClaims of a DRA driver, and for nothing else. client-go's own clientset registers
// the types of every API group; in a program that runs on every node they would be a
// quarter of its memory.
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
type Client struct{ rest, resources rest.Interface }

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

// Pods are the pods of a namespace, or of all when it is empty.
func (c *Client) Pods(namespace string) *Pods { return &Pods{c.rest, namespace} }

// Nodes are the cluster's nodes.
func (c *Client) Nodes() *Nodes { return &Nodes{c.rest} }

// Pods reads and patches pods.
type Pods struct {
	rest      rest.Interface
	namespace string
}

// List lists pods.
func (p *Pods) List(ctx context.Context, o metav1.ListOptions) (*v1.PodList, error) {
	out := &v1.PodList{}
	return out, p.rest.Get().Namespace(p.namespace).Resource("pods").VersionedParams(&o, parameters).Do(ctx).Into(out)
}

// Watch follows pods.
func (p *Pods) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return p.rest.Get().Namespace(p.namespace).Resource("pods").VersionedParams(&o, parameters).Watch(ctx)
}

// Get reads a pod.
func (p *Pods) Get(ctx context.Context, name string, o metav1.GetOptions) (*v1.Pod, error) {
	out := &v1.Pod{}
	return out, p.rest.Get().Namespace(p.namespace).Resource("pods").Name(name).VersionedParams(&o, parameters).Do(ctx).Into(out)
}

// Patch changes a pod.
func (p *Pods) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, o metav1.PatchOptions, sub ...string) (*v1.Pod, error) {
	out := &v1.Pod{}
	return out, p.rest.Patch(kind).Namespace(p.namespace).Resource("pods").Name(name).SubResource(sub...).VersionedParams(&o, parameters).Body(patch).Do(ctx).Into(out)
}

// Nodes reads and patches nodes.
type Nodes struct{ rest rest.Interface }

// Get reads a node.
func (n *Nodes) Get(ctx context.Context, name string, o metav1.GetOptions) (*v1.Node, error) {
	out := &v1.Node{}
	return out, n.rest.Get().Resource("nodes").Name(name).VersionedParams(&o, parameters).Do(ctx).Into(out)
}

// Patch changes a node.
func (n *Nodes) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, o metav1.PatchOptions, sub ...string) (*v1.Node, error) {
	out := &v1.Node{}
	return out, n.rest.Patch(kind).Resource("nodes").Name(name).SubResource(sub...).VersionedParams(&o, parameters).Body(patch).Do(ctx).Into(out)
}

// events writes events in the namespaces that they name, for client-go's recorder.
type events struct{ rest rest.Interface }

// Create writes a new event.
func (e *events) Create(event *v1.Event) (*v1.Event, error) {
	out := &v1.Event{}
	return out, e.rest.Post().Namespace(event.Namespace).Resource("events").Body(event).Do(context.Background()).Into(out)
}

// Update replaces an event.
func (e *events) Update(event *v1.Event) (*v1.Event, error) {
	out := &v1.Event{}
	return out, e.rest.Put().Namespace(event.Namespace).Resource("events").Name(event.Name).Body(event).Do(context.Background()).Into(out)
}

// Patch changes an event: it happened again.
func (e *events) Patch(event *v1.Event, patch []byte) (*v1.Event, error) {
	out := &v1.Event{}
	return out, e.rest.Patch(types.StrategicMergePatchType).Namespace(event.Namespace).Resource("events").Name(event.Name).Body(patch).Do(context.Background()).Into(out)
}
