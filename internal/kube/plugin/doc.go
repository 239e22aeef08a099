// Package plugin puts the engine behind kube-scheduler's extension points. The plugins
// translate, ask, translate back; they decide nothing.
//
//	queue.go   GPUQueue    PreEnqueue: a pod that the engine places stays out of kube-scheduler's
//	                       queue until it is released; Less: released pods first, by rank
//	filter.go  GPUFilter   PreFilter, Filter: do the node's devices fit
//	score.go   GPUScore    PreScore, Score: how good is the node, by weighted objectives
//	           GPUPriority Score: nodes with more GPUs are better; needs none of the others
//	gang.go    GPUReserve  Reserve: the pod still has its devices, or takes those of another node
//	           GPUGang     Permit: members wait for the last of their batch; Unreserve: a failure
//	bind.go    GPUBind     Bind: the last checks, and the Binding with the record on it
//	claims.go  GPUClaims   kube-scheduler's DynamicResources, which sees what was planned
//
// waitingroom.go keeps pods that wait for the engine before kube-scheduler's queue. loop.go steps
// the engine and carries out what it decides: activations, evictions, healing, notices.
// schedule.go takes a released pod to its planned node, or to another one when kube-scheduler's
// filters refuse that, and puts it back without an event when its cycle fails: teller.go tells it
// why it waits, and the audit log. demand.go tells gpu-controller what autoscalers are asked for,
// memory.go keeps what was learned, query.go answers questions. fence.go keeps a process from
// writing that may not lead any more, events.go lets bindings go before events.
//
// command.go is the command line and assembles the scheduler; shared.go is what the profiles
// share, and the comparison of the engine with the API; profiles.go, args.go, settings.go and metricsargs.go read the configuration.
package plugin
