// Package controller is gpu-controller: it creates the pods of Volcano Jobs and
// maintains the status of Jobs, PodGroups and Queues. It places no pods; the scheduler
// does.
//
// Three level-triggered loops: an event only enqueues the object's key, and the action
// follows from the present state. Any of them may be killed at any point.
//
//	jobs.go       Job    -> PodGroup, pods, plugin objects, status   (lifecycle, blueprint)
//	podgroups.go  pods   -> PodGroup status
//	queues.go     PodGroups, pods -> Queue status; the queues root and default
//
// The scheduler's reasons about a gang's pods are copied to its PodGroup and its Job,
// where users look first.
//
// On a cluster without Volcano's definitions it waits for them.
package controller
