package dra

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Every DeviceClass has an extended resource of its own, whose name begins with
// resourceapi.ResourceDeviceClassPrefix. kube-scheduler makes one claim of all extended
// resources of a pod that classes stand for; until it is written, that claim has a name
// that no object can have, and a UID that it will not keep.
const unwritten = "<extended-resources>"

// Implicit says whether a pod asks for devices by the implicit extended resource of a
// class.
func Implicit(pod *v1.Pod) bool {
	found := false
	eachImplicit(pod, func(string, v1.ResourceName) bool { found = true; return false })
	return found
}

// eachImplicit visits the implicit extended resources that a pod asks for, and where it does,
// until visit returns false.
func eachImplicit(pod *v1.Pod, visit func(field string, name v1.ResourceName) bool) {
	for _, list := range []struct {
		field string
		of    []v1.Container
	}{{"spec.initContainers", pod.Spec.InitContainers}, {"spec.containers", pod.Spec.Containers}} {
		for i := range list.of {
			r := &list.of[i].Resources
			for _, some := range []struct {
				field string
				of    v1.ResourceList
			}{{"limits", r.Limits}, {"requests", r.Requests}} {
				if !slices.ContainsFunc(slices.Collect(maps.Keys(some.of)), isImplicit) {
					continue
				}
				for _, name := range slices.Sorted(maps.Keys(some.of)) {
					if q := some.of[name]; isImplicit(name) && !q.IsZero() && !visit(fmt.Sprintf("%s[%d].resources.%s[%s]", list.field, i, some.field, name), name) {
						return
					}
				}
			}
		}
	}
}

func isImplicit(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix)
}

// implicit says why a pod is not placed that asks for GPUs by the implicit extended resource
// of a class: they would be charged to no queue and no quota. It is a Wait where the class
// does not exist.
func (b *Book) implicit(pod *v1.Pod) (problem error) {
	eachImplicit(pod, func(field string, name v1.ResourceName) bool {
		class, err := b.classes.Get(strings.TrimPrefix(string(name), resourceapi.ResourceDeviceClassPrefix))
		switch {
		case err != nil:
			problem = &Wait{Why: fmt.Sprintf("%s: DeviceClass %q does not exist", field, strings.TrimPrefix(string(name), resourceapi.ResourceDeviceClassPrefix))}
		case ofGPUs(class):
			problem = fmt.Errorf("%s: DeviceClass %q is of GPUs, which are not given by this name: use nvidia.com/gpu or a ResourceClaim", field, class.Name)
		}
		return problem == nil
	})
	return problem
}

// Unwritten is the pod for whose extended resources a claim was made that has not been
// written; empty: it is another claim.
func Unwritten(c *resourceapi.ResourceClaim) types.UID {
	if c.Name != unwritten { // no object can have that name, so no tenant can claim to be it
		return ""
	}
	return owner(c)
}

// ForExtended is the pod for whose extended resources a claim was made; empty: it is another
// claim.
func ForExtended(c *resourceapi.ResourceClaim) types.UID {
	if c.Annotations[resourceapi.ExtendedResourceClaimAnnotation] != "true" {
		return ""
	}
	return owner(c)
}

// ExtendedSeen says whether the allocation of the claim that was written for a bound pod's
// extended resources is seen, if one was.
func (b *Book) ExtendedSeen(pod *v1.Pod) bool {
	s := pod.Status.ExtendedResourceClaimStatus
	if s == nil {
		return true
	}
	c := b.Claim(pod.Namespace + "/" + s.ResourceClaimName)
	return c != nil && c.Status.Allocation != nil
}

func owner(c *resourceapi.ResourceClaim) types.UID {
	if o := metav1.GetControllerOf(c); o != nil && o.Kind == "Pod" {
		return o.UID
	}
	return ""
}
