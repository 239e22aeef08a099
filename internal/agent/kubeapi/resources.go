package kubeapi

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Slices are the cluster's ResourceSlices.
func (c *Client) Slices() *Slices { return &Slices{c.resources} }

// Claim reads a ResourceClaim.
func (c *Client) Claim(ctx context.Context, namespace, name string) (*resourceapi.ResourceClaim, error) {
	out := &resourceapi.ResourceClaim{}
	return out, c.resources.Get().Namespace(namespace).Resource("resourceclaims").Name(name).Do(ctx).Into(out)
}

// Slices reads and writes ResourceSlices.
type Slices struct{ rest rest.Interface }

const slicesResource = "resourceslices"

// List lists slices.
func (s *Slices) List(ctx context.Context, o metav1.ListOptions) (*resourceapi.ResourceSliceList, error) {
	out := &resourceapi.ResourceSliceList{}
	return out, s.rest.Get().Resource(slicesResource).VersionedParams(&o, parameters).Do(ctx).Into(out)
}

// Watch follows slices.
func (s *Slices) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return s.rest.Get().Resource(slicesResource).VersionedParams(&o, parameters).Watch(ctx)
}

// Create writes a new slice.
func (s *Slices) Create(ctx context.Context, slice *resourceapi.ResourceSlice) (*resourceapi.ResourceSlice, error) {
	out := &resourceapi.ResourceSlice{}
	return out, s.rest.Post().Resource(slicesResource).Body(slice).Do(ctx).Into(out)
}

// Update replaces a slice.
func (s *Slices) Update(ctx context.Context, slice *resourceapi.ResourceSlice) (*resourceapi.ResourceSlice, error) {
	out := &resourceapi.ResourceSlice{}
	return out, s.rest.Put().Resource(slicesResource).Name(slice.Name).Body(slice).Do(ctx).Into(out)
}

// Delete removes a slice.
func (s *Slices) Delete(ctx context.Context, name string) error {
	return s.rest.Delete().Resource(slicesResource).Name(name).Do(ctx).Error()
}
