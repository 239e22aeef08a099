package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// As is the configuration for clients of a user of some groups, with a client certificate:
// it may do what RBAC says, without a rate limit.
func (c *Cluster) As(user string, groups ...string) (*rest.Config, error) {
	path, err := c.KubeconfigFor(user, groups...)
	if err != nil {
		return nil, err
	}
	settings, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	settings.QPS, settings.Burst = -1, -1
	return settings, nil
}

// User is the world with the clients of a user of some groups. Manifests are still applied
// by the administrator.
func (w *World) User(name string, groups ...string) *World {
	w.T.Helper()
	settings, err := w.As(name, groups...)
	w.Must(err)
	c, out := *w.Cluster, *w
	out.Cluster = &c
	c.Client, err = kubernetes.NewForConfig(settings)
	w.Must(err)
	c.Dynamic, err = dynamic.NewForConfig(settings)
	w.Must(err)
	return &out
}

// DryRun creates an object without effect, and returns what the API server objects to.
func (w *World) DryRun(kind schema.GroupVersionResource, o *unstructured.Unstructured) error {
	_, err := w.Objects(kind).Create(context.Background(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}
