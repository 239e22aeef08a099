package dialect

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// Request is RequestOn with the default levels of domains.
func Request(pod *v1.Pod) (*model.Request, error) { return RequestOn(pod, topology.DefaultLevels()) }

// RequestOn reads what a pod asks for on a cluster with these levels of domains: nil when it asks for
// no GPU, an error that names the field when the request is invalid.
func RequestOn(pod *v1.Pod, levels topology.Levels) (*model.Request, error) {
	return RequestBy(pod, levels, nil)
}

// ByClaim is what a pod asks for through ResourceClaims.
type ByClaim struct {
	Vendor model.Vendor
	// Containers has one entry for each request of a claim: which containers see it, kubelet decides.
	Containers []model.Container
	// UseUUIDs, when not empty, are the only cards that the claims' selectors match.
	UseUUIDs []string
	// Field is where the pod says so, for messages.
	Field string
}

// RequestBy is RequestOn for a pod that asks for GPUs through claims; nil: it has none.
func RequestBy(pod *v1.Pod, levels topology.Levels, by *ByClaim) (*model.Request, error) {
	r, used, err := counts(pod)
	if err == nil && by != nil {
		r, err = withClaims(pod, r, by)
	}
	if err != nil || r == nil {
		return nil, err
	}
	r.TenantPriority, r.Workload = defaultTenants.Of(pod), workloads[pod.Labels[names.LabelWorkload]]
	r.Host, r.Extras = podNeeds(pod)
	for _, v := range used {
		if v.wishes != nil {
			if err := v.wishes(pod, r); err != nil {
				return nil, err
			}
		}
	}
	if err := readWishes(pod, r); err != nil {
		return nil, err
	}
	readPool(pod, r)
	if err := readTopology(pod, r, levels); err != nil {
		return nil, err
	}
	return r, nil
}

// withClaims is a request for what claims ask for. A pod that asks by extended resource as well is refused.
func withClaims(pod *v1.Pod, r *model.Request, by *ByClaim) (*model.Request, error) {
	if r != nil {
		return nil, fmt.Errorf("%s: GPUs by claim and by extended resource in one pod", by.Field)
	}
	r = &model.Request{Vendor: by.Vendor, Containers: by.Containers, UseUUIDs: by.UseUUIDs, Priority: priority(pod)}
	if n := r.Count(); n > model.MaxDevices {
		return nil, fmt.Errorf("%s: %d GPUs in all, at most %d", by.Field, n, model.MaxDevices)
	}
	return r, nil
}

// counts reads how many devices, and how much of each, a pod's containers ask for,
// and in which vocabularies: what cannot change once the pod exists.
func counts(pod *v1.Pod) (*model.Request, []*vocabulary, error) {
	r := &model.Request{Priority: priority(pod)}
	var first *ask
	var used []*vocabulary
	err := eachContainer(pod, func(c *v1.Container, path string, phase model.Phase) error {
		a, in, err := asks(pod, c, path)
		if err != nil {
			return err
		}
		container := model.Container{Name: c.Name, Phase: phase}
		if a != nil {
			switch {
			case first == nil:
				first = a
				r.Vendor = a.vendor
			case first.vendor != a.vendor:
				return twoVendors(a, first)
			case first.part.Kind != a.part.Kind:
				return fmt.Errorf("%s: whole GPUs and parts of GPUs in one pod, the other is %s", a.field, first.field)
			}
			if !slices.Contains(used, in) {
				used = append(used, in)
			}
			container.Resource, container.Count, container.Part = string(a.resource), a.count, a.part
			r.MinMemory = max(r.MinMemory, a.minMemory)
			if len(a.models) > 0 {
				if len(r.UseModels) > 0 && !slices.Equal(r.UseModels, a.models) {
					return fmt.Errorf("%s: two kinds of cards in one pod, the other is %s", a.field, first.field)
				}
				r.UseModels = a.models
			}
		}
		r.Containers = append(r.Containers, container)
		return nil
	})
	if err != nil || first == nil {
		return nil, nil, err
	}
	if n := r.Count(); n > model.MaxDevices {
		return nil, nil, fmt.Errorf("spec.containers: %d GPUs in all, at most %d", n, model.MaxDevices)
	}
	return r, used, nil
}

// eachContainer visits init containers, then containers, as Kubernetes counts them.
func eachContainer(pod *v1.Pod, visit func(c *v1.Container, path string, phase model.Phase) error) error {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		phase := model.Init
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			phase = model.Sidecar
		}
		if err := visit(c, fmt.Sprintf("spec.initContainers[%d]", i), phase); err != nil {
			return err
		}
	}
	for i := range pod.Spec.Containers {
		if err := visit(&pod.Spec.Containers[i], fmt.Sprintf("spec.containers[%d]", i), model.Main); err != nil {
			return err
		}
	}
	return nil
}

// workloads are the values of names.LabelWorkload.
var workloads = map[string]model.Workload{"training": model.Training, "inference": model.Inference, "development": model.Development}

// priority is that of a pod; 0 before the API server has set it.
func priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}
