package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// fieldManager owns the fields that ApplyManifests sets.
const fieldManager = "tangram"

// settleTime is how long the API server may take to serve a kind after its CRD.
const settleTime = 20 * time.Second

// ApplyManifests creates or updates the objects of YAML documents, in their order
// (server-side apply). A CustomResourceDefinition is waited for until it is
// established, so that its objects may follow. Objects of a namespaced kind that
// name no namespace go to "default".
func (c *Cluster) ApplyManifests(ctx context.Context, docs []byte) error {
	objects, err := decodeManifests(docs)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	resources, err := discovery.NewDiscoveryClientForConfig(c.admin)
	if err != nil {
		return err
	}
	a := applier{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(resources))}
	for _, o := range objects {
		if err := a.apply(ctx, o); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// decodeManifests splits YAML documents; empty ones are skipped.
func decodeManifests(docs []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(docs)))
	for n := 1; ; n++ {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &o.Object); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if len(o.Object) == 0 {
			continue
		}
		if o.GetAPIVersion() == "" || o.GetKind() == "" || o.GetName() == "" {
			return nil, fmt.Errorf("document %d: apiVersion, kind or metadata.name is missing", n)
		}
		objects = append(objects, o)
	}
}

type applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func (a applier) apply(ctx context.Context, o *unstructured.Unstructured) error {
	target, err := a.resource(ctx, o)
	if err != nil {
		return err
	}
	applied, err := target.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return err
	}
	if o.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	return wait.PollUntilContextTimeout(ctx, readyInterval, settleTime, true, func(ctx context.Context) (bool, error) {
		if isEstablished(applied) {
			return true, nil
		}
		applied, err = target.Get(ctx, o.GetName(), metav1.GetOptions{})
		return false, err
	})
}

// resource finds where the object belongs. The kind may be so new that the API
// server does not list it yet.
func (a applier) resource(ctx context.Context, o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	var mapping *meta.RESTMapping
	gvk := o.GroupVersionKind()
	err := wait.PollUntilContextTimeout(ctx, readyInterval, settleTime, true, func(context.Context) (bool, error) {
		var err error
		mapping, err = a.mapper.RESTMapping(schema.GroupKind{Group: gvk.Group, Kind: gvk.Kind}, gvk.Version)
		if meta.IsNoMatchError(err) {
			a.mapper.Reset()
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil, fmt.Errorf("the API server knows no kind %s in %s", gvk.Kind, gvk.GroupVersion())
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return a.client.Resource(mapping.Resource), nil
	}
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return a.client.Resource(mapping.Resource).Namespace(namespace), nil
}

func isEstablished(crd *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == "Established" && condition["status"] == "True" {
			return true
		}
	}
	return false
}

// retryWhileNew runs f again while the API server says that it does not know the
// resource: it may be that young.
func retryWhileNew(ctx context.Context, f func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, readyInterval, settleTime, true, func(ctx context.Context) (bool, error) {
		last = f(ctx)
		if apierrors.IsNotFound(last) {
			return false, nil
		}
		return true, last
	})
	if wait.Interrupted(err) && last != nil {
		return last
	}
	return err
}
