// Package workload turns pods and the objects around them (PodGroups, Jobs, JobSets,
// RayClusters, PriorityClasses) into core's gangs. A pod that comes alone is a gang of
// one. It translates and remembers; core decides.
//
// Gangs is not safe for concurrent use: the engine calls it under its lock. Profiles and
// Reader are, since kube-scheduler's queue asks them under its own.
//
// Read gangs.go (which pods belong together), owners.go (what other objects say of
// them), describe.go (a gang for core), shape.go and apart.go (which pods are alike and
// which are kept apart), request.go (what a pod asks for), runtimes.go (how long gangs
// run).
package workload
