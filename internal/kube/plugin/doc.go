// Package plugin puts the engine behind kube-scheduler's extension points. The plugins
// translate, ask, translate back; they decide nothing.
//
//	GPUQueue    PreEnqueue: a pod that the engine places stays out of kube-scheduler's
//	            queue until it is released; Less: released pods first, by rank
//	GPUFilter   PreFilter, Filter: do the node's devices fit
//	GPUScore    PreScore, Score: how good is the node, by weighted objectives
//	GPUReserve  Reserve: the pod still has its devices, or takes those of another node
//	GPUGang     Permit: members wait for the last of their batch; Unreserve: a failure
//	GPUBind     Bind: the last checks, and the Binding with the record on it
//	GPUPriority Score: nodes with more GPUs are better; needs none of the others
//
// waitingroom.go keeps pods that wait for the engine before kube-scheduler's queue.
// loop.go steps the engine and carries out what it decides: activations, evictions,
// healing, notices. schedule.go takes a released pod to its planned node, or to another
// one when kube-scheduler's filters refuse that. failure.go puts a pod back without
// telling it anything: why it waits is told by teller.go. fence.go keeps a process from
// writing that may not lead any more, selfcheck.go compares the engine with the API,
// events.go lets bindings go before events, eventsapi.go writes them through events.k8s.io.
//
// setup.go assembles the scheduler; command.go is its command line; shared.go is what the
// profiles share; profiles.go, args.go and levels.go read the configuration, recording.go
// begins a recording.
package plugin
