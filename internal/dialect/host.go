package dialect

import (
	"strings"
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	helper "k8s.io/component-helpers/resource"

	"github.com/tangram-dev/tangram/core/model"
)

// podNeeds is what a pod needs beside devices, as NodeResourcesFit counts it: init containers,
// sidecars, overhead, pod-level resources, resizes in place. The pod is one of the node's pods.
func podNeeds(pod *v1.Pod) (model.Host, model.Extras) {
	list := helper.PodRequests(pod, helper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	return host(list), extras(list, 1)
}

// HostRequest is what a pod that asks for no device asks for.
func HostRequest(pod *v1.Pod) *model.Request {
	r := &model.Request{}
	r.Host, r.Extras = podNeeds(pod)
	readPool(pod, r)
	return r
}

func host(list v1.ResourceList) model.Host {
	return model.Host{
		CPU:    min(max(0, list.Cpu().MilliValue()), model.MaxAmount),
		Memory: model.Bytes(min(max(0, list.Memory().Value()), model.MaxAmount)),
	}
}

// extras are the resources that kube-scheduler compares beside CPU and memory, and the number of pods;
// not those that Tangram counts itself and kube-scheduler is told to ignore (Unpublished).
func extras(list v1.ResourceList, pods int64) model.Extras {
	out := make([]model.Extra, 1, len(list)+1)
	out[0] = model.Extra{Name: string(v1.ResourcePods), Amount: pods}
	for name, amount := range list {
		if compared(name) {
			// Many pods name the same few resources: one copy of the name is enough.
			out = append(out, model.Extra{Name: unique.Make(string(name)).Value(), Amount: amount.Value()})
		}
	}
	return model.MakeExtras(out)
}

// compared says whether NodeResourcesFit compares a resource by its own name: storage and scalar resources.
func compared(name v1.ResourceName) bool {
	text := string(name)
	if name == v1.ResourceEphemeralStorage || strings.HasPrefix(text, v1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(text, v1.ResourceAttachableVolumesPrefix) {
		return true
	}
	return strings.Contains(text, "/") && !unpublished.Has(text)
}

// unpublished are the resources of Unpublished.
var unpublished = sets.New(Unpublished()...)
