// Package workload turns pods and the objects around them (PodGroups, Jobs, JobSets,
// RayClusters, PriorityClasses) into core's gangs. A pod that comes alone is a gang of
// one. It translates and remembers; core decides.
//
// Gangs is not safe for concurrent use: the engine calls it under its lock. Reader is:
// kube-scheduler's queue asks it under its own.
//
// Read gangs.go (which pods belong together), owners.go, reading.go and words.go (what
// other objects say of them), subgroups.go, describe.go (a gang for core, or in what its
// members contradict each other), shape.go and apart.go (which pods are alike and which
// are kept apart), request.go (what a pod asks for), protect.go (which pods are never
// victims), company.go (which pods are evicted together), runtimes.go (how long gangs
// run), timing.go (what time changes), again.go (which pods are read again), succeeded.go (members
// that ended), objects.go (questions by the name of
// an object), copy.go (what a copy of the state needs).
package workload
