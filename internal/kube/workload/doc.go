// Package workload turns pods and the objects around them (PodGroups, Jobs, JobSets,
// RayClusters, PriorityClasses) into core's gangs. A pod that comes alone is a gang of
// one. It translates and remembers; core decides.
//
// Gangs is not safe for concurrent use: the engine calls it under its lock. Reader is:
// kube-scheduler's queue asks it under its own.
//
// Read gangs.go (which pods belong together, and which are evicted together), owners.go (what
// other objects say of them), subgroups.go, describe.go (a gang for core, or in what its
// members contradict each other), shape.go (which pods are alike and which are kept apart),
// request.go (what a pod asks for, and whether it is ever a victim), runtimes.go
// (how long gangs run, and what a copy of the state needs), again.go (which pods are read
// again), objects.go (questions by the name of an object).
package workload
