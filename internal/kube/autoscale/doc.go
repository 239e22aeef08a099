// Package autoscale carries out what the scheduler asks of autoscalers (api/demand): it
// makes placeholder pods that stand for members of gangs which need nodes of one domain, and
// marks nodes that are kept for gangs so that they are not removed.
//
// A placeholder is a pod that can never run: it has a scheduling gate, for which the API
// server refuses every Binding, and a scheduler that does not exist. It is unbound, so no
// scheduler, quota of the tenant or ledger counts it. Autoscalers read its PodScheduled
// condition, which says Unschedulable, and count it like the pod it stands for, with the
// labels of the domain as a node affinity that the pod itself cannot have. It is in the
// controller's own namespace, where tenants have no rights, and goes when the pod it stands
// for is bound, is gone or waits for something else, and with the controller's pod.
//
// Nothing is remembered: each round compares what is asked for with what the API has.
//
// Read plan.go (what is to be done), placeholder.go (the pods), nodes.go (the marks), run.go.
package autoscale
