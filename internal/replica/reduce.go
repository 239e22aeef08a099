package replica

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// What a dump has of an object is what scheduling reads. Programs, their arguments and
// environment, configuration and secrets are left out; images are replaced by a digest of
// their name, which still says whether two jobs run the same program: runtimes are learned
// by that.

// projects are the domains of projects whose pods are gangs, and of Kubernetes itself: the
// table of internal/dialect has the words of theirs that are read today.
var projects = []string{"grove.io", "ray.io", "kubeflow.org", "k8s.io", "x-k8s.io", "kubernetes.io"}

// keeps says whether an annotation is one that scheduling may read. kubectl's hold whole
// objects.
func keeps(key string) bool {
	if _, known := dialect.FindWord(dialect.Annotation, key); known || dialect.SystemOf(dialect.Annotation, key) != "" {
		return true
	}
	domain, _, found := strings.Cut(key, "/")
	return found && domain != "kubectl.kubernetes.io" && slices.ContainsFunc(projects, func(p string) bool {
		return domain == p || strings.HasSuffix(domain, "."+p)
	})
}

// annotationsOf are the annotations that scheduling may read.
func annotationsOf[V any](in map[string]V) map[string]V {
	out := maps.Clone(in)
	maps.DeleteFunc(out, func(key string, _ V) bool { return !keeps(key) })
	return out
}

func metaOf(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		Labels: m.Labels, Annotations: annotationsOf(m.Annotations), OwnerReferences: m.OwnerReferences,
	}
}

// digest stands for an image.
func digest(image string) string {
	if image == "" || strings.HasPrefix(image, "image-") && len(image) == len("image-")+16 {
		return image
	}
	sum := sha256.Sum256([]byte(image))
	return "image-" + hex.EncodeToString(sum[:8])
}

// ReducePod is what scheduling reads of a pod. The result shares memory with it.
func ReducePod(p *v1.Pod) *v1.Pod {
	s := &p.Spec
	out := &v1.Pod{ObjectMeta: metaOf(&p.ObjectMeta)}
	out.Spec = v1.PodSpec{
		NodeName: s.NodeName, SchedulerName: s.SchedulerName, SchedulingGates: s.SchedulingGates, Tolerations: s.Tolerations,
		NodeSelector: s.NodeSelector, Affinity: s.Affinity, TopologySpreadConstraints: s.TopologySpreadConstraints,
		Priority: s.Priority, PriorityClassName: s.PriorityClassName, PreemptionPolicy: s.PreemptionPolicy, SchedulingGroup: s.SchedulingGroup,
		TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds, ResourceClaims: s.ResourceClaims, Resources: s.Resources,
		Overhead: s.Overhead, HostNetwork: s.HostNetwork, RuntimeClassName: s.RuntimeClassName,
		Containers: containersOf(s.Containers), InitContainers: containersOf(s.InitContainers),
	}
	for _, v := range s.Volumes {
		switch { // those that decide where a pod may run
		case v.PersistentVolumeClaim != nil:
			out.Spec.Volumes = append(out.Spec.Volumes, v1.Volume{Name: v.Name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: v.PersistentVolumeClaim}})
		case v.Ephemeral != nil:
			out.Spec.Volumes = append(out.Spec.Volumes, v1.Volume{Name: v.Name, VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}})
		case v.CSI != nil:
			out.Spec.Volumes = append(out.Spec.Volumes, v1.Volume{Name: v.Name, VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: v.CSI.Driver}}})
		}
	}
	out.Status = v1.PodStatus{
		Phase: p.Status.Phase, StartTime: p.Status.StartTime, ResourceClaimStatuses: p.Status.ResourceClaimStatuses, ExtendedResourceClaimStatus: p.Status.ExtendedResourceClaimStatus,
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled {
			out.Status.Conditions = append(out.Status.Conditions, v1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime})
		}
	}
	return out
}

func containersOf(in []v1.Container) (out []v1.Container) {
	for _, c := range in {
		kept := v1.Container{Name: c.Name, Image: digest(c.Image), Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		for _, p := range c.Ports {
			if p.HostPort != 0 { // it keeps pods apart
				kept.Ports = append(kept.Ports, p)
			}
		}
		out = append(out, kept)
	}
	return out
}

// reduceNode is what scheduling reads of a Node.
func reduceNode(n *v1.Node) *v1.Node {
	out := &v1.Node{ObjectMeta: metaOf(&n.ObjectMeta)}
	out.Spec = v1.NodeSpec{Taints: n.Spec.Taints, Unschedulable: n.Spec.Unschedulable}
	out.Status = v1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			out.Status.Conditions = append(out.Status.Conditions, v1.NodeCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
		}
	}
	return out
}

// programs are fields of owners' pod templates that scheduling does not read.
var programs = []string{
	"env", "envFrom", "command", "args", "entrypoint", "volumes", "volumeMounts", "volumeDevices", "imagePullSecrets", "lifecycle",
	"livenessProbe", "readinessProbe", "startupProbe", "securityContext", "serviceAccountName", "serviceAccount", "rayStartParams",
	"runtimeEnvYAML", "managedFields", "data", "stringData", "binaryData", "volumeClaimTemplates", "plugins", "hostAliases", "dnsConfig",
}

// reduceObject is an object that describes gangs, without the programs in it.
func reduceObject(o *unstructured.Unstructured) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: reduceMap(o.Object)}
}

func reduceMap(in map[string]any) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		if slices.Contains(programs, k) {
			continue
		}
		switch x := v.(type) {
		case map[string]any:
			if k == "annotations" {
				out[k] = annotationsOf(x)
			} else {
				out[k] = reduceMap(x)
			}
		case []any:
			out[k] = reduceList(x)
		case string:
			if out[k] = x; k == "image" {
				out[k] = digest(x)
			}
		default:
			out[k] = v
		}
	}
	return out
}

func reduceList(in []any) []any {
	out := make([]any, len(in))
	for i, v := range in {
		if m, ok := v.(map[string]any); ok {
			out[i] = reduceMap(m)
		} else {
			out[i] = v
		}
	}
	return out
}

// reduceRuntime replaces the images in what a learned runtime is of: the first two words
// are numbers of GPUs and members.
func reduceRuntime(r arbiter.SavedRuntime) arbiter.SavedRuntime {
	parts := strings.Split(r.Key.Shape, " ")
	for i := 2; i < len(parts); i++ {
		parts[i] = digest(parts[i])
	}
	r.Key.Shape = strings.Join(parts, " ")
	return r
}
