package cli

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/migrate"
)

// cluster reads objects of any kind.
type cluster struct {
	config    *rest.Config
	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterface
}

// pageSize is how many objects are asked for at once.
const pageSize = 500

func (l *look) connect() (*cluster, error) {
	config, err := l.options.RESTConfig()
	if err != nil {
		return nil, err
	}
	c := &cluster{config: config}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	c.discovery, err = discovery.NewDiscoveryClientForConfig(config)
	return c, err
}

// served are the kinds that the cluster has and that are wanted, in the version that it
// prefers. Groups whose server does not answer are left out by discovery.
func (c *cluster) served(wanted func(group, resource string) bool) ([]schema.GroupVersionResource, error) {
	lists, err := c.discovery.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, err
	}
	var out []schema.GroupVersionResource
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range l.APIResources {
			if slices.Contains(r.Verbs, "list") && !strings.Contains(r.Name, "/") && wanted(gv.Group, r.Name) {
				out = append(out, gv.WithResource(r.Name))
			}
		}
	}
	return out, nil
}

// each visits the objects of a kind that a field selector selects, page by page; empty: all.
func (c *cluster) each(ctx context.Context, kind schema.GroupVersionResource, fields string, visit func(*unstructured.Unstructured) error) error {
	o := metav1.ListOptions{Limit: pageSize, FieldSelector: fields}
	for {
		list, err := c.dynamic.Resource(kind).List(ctx, o)
		if err != nil {
			return fmt.Errorf("list %s: %w", kind.GroupResource(), err)
		}
		for i := range list.Items {
			if err := visit(&list.Items[i]); err != nil {
				return err
			}
		}
		if o.Continue = list.GetContinue(); o.Continue == "" {
			return nil
		}
	}
}

// inputOf is an object as input.
func inputOf(o *unstructured.Unstructured) (migrate.Input, error) {
	o.SetManagedFields(nil)
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	data, err := yaml.Marshal(o.Object)
	name := strings.ToLower(o.GetKind()) + "/" + o.GetName()
	if ns := o.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return migrate.Input{Name: name, Data: data, Object: true}, err
}

// configurations are the objects of a cluster that configure other schedulers.
func configurations(ctx context.Context, c *cluster) ([]migrate.Input, error) {
	wanted := map[string][]string{
		"kai.scheduler": {"schedulingshards", "configs"}, "scheduling.run.ai": {"queues"}, "": {"configmaps"},
		"kueue.x-k8s.io": {"clusterqueues", "localqueues", "cohorts", "resourceflavors"},
	}
	kinds, err := c.served(func(group, resource string) bool { return slices.Contains(wanted[group], resource) })
	if err != nil {
		return nil, err
	}
	return c.read(ctx, kinds, func(o *unstructured.Unstructured) bool {
		return o.GetKind() != "ConfigMap" || configures(o)
	})
}

// configures says whether a ConfigMap has the configuration of a scheduler that is known.
func configures(o *unstructured.Unstructured) bool {
	data, _, _ := unstructured.NestedStringMap(o.Object, "data")
	for key, text := range data {
		switch {
		case key == "volcano-scheduler.conf", key == "device-config.yaml",
			key == "config.json" && strings.Contains(text, `"nodeconfig"`),
			key == "config.yaml" && strings.Contains(text, "tiers:") && strings.Contains(text, "actions:"),
			key == "config.yaml" && strings.Contains(text, "hami-scheduler"):
			return true
		}
	}
	return false
}

// workloads are groups of controllers of pods, besides Kubernetes' own.
var workloads = []string{"ray.io", "jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "kubeflow.org", "trainer.kubeflow.org"}

// manifests are the objects of a cluster that people wrote.
func manifests(ctx context.Context, c *cluster) ([]migrate.Input, error) {
	kinds, err := c.served(func(group, resource string) bool {
		switch group {
		case "":
			return slices.Contains([]string{"pods", "namespaces", "nodes", "resourcequotas", "replicationcontrollers"}, resource)
		case "apps", "batch":
			return resource != "controllerrevisions"
		case "kueue.x-k8s.io":
			return resource != "workloads"
		case "scheduling.run.ai":
			return resource != "bindrequests"
		}
		return slices.Contains(workloads, group) || migrate.Concerns(group)
	})
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	return c.read(ctx, kinds, func(o *unstructured.Unstructured) bool {
		owner := metav1.GetControllerOf(o)
		if owner == nil {
			return true
		}
		if slices.Contains([]string{"ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController", "Node"}, owner.Kind) {
			return false // the owner is looked at
		}
		first := !seen[string(owner.UID)]
		seen[string(owner.UID)] = true
		return first
	})
}

// read lists kinds. What the caller may not list is an error: a check that leaves something
// out must not look complete.
func (c *cluster) read(ctx context.Context, kinds []schema.GroupVersionResource, wanted func(*unstructured.Unstructured) bool) ([]migrate.Input, error) {
	var out []migrate.Input
	var refused []string
	for _, kind := range kinds {
		err := c.each(ctx, kind, "", func(o *unstructured.Unstructured) error {
			if !wanted(o) {
				return nil
			}
			in, err := inputOf(o)
			out = append(out, in)
			return err
		})
		switch {
		case apierrors.IsForbidden(err):
			refused = append(refused, kind.GroupResource().String())
		case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err): // gone since discovery
		case err != nil:
			return nil, err
		}
	}
	if len(refused) > 0 {
		return nil, &query.Error{Status: http.StatusForbidden, Reason: "Forbidden",
			Message: "the credentials may not list " + strings.Join(refused, ", ") + " of all namespaces; -f FILE reads files instead"}
	}
	return out, nil
}
