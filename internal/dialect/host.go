package dialect

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/tangram-dev/tangram/core/model"
)

// podHost is what a pod needs beside devices, as Kubernetes counts it.
func podHost(pod *v1.Pod) model.Host {
	return host(resource.PodRequests(pod, resource.PodResourcesOptions{}))
}

// HostRequest is what a pod that asks for no device asks for.
func HostRequest(pod *v1.Pod) *model.Request { return &model.Request{Host: podHost(pod)} }

// nodeHost is what a node offers beside devices.
func nodeHost(node *v1.Node) model.Host { return host(node.Status.Allocatable) }

func host(list v1.ResourceList) model.Host {
	const mib = 1 << 20
	return model.Host{
		CPU:    max(0, list.Cpu().MilliValue()),
		Memory: model.MiB(max(0, list.Memory().Value()/mib)),
	}
}
