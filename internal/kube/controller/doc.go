// Package controller is gpu-controller: it turns Volcano Jobs into pods and keeps
// the status of Jobs, PodGroups and Queues true. It places nothing; that is the
// scheduler's.
//
// Three loops, each level-triggered: an event only says which object to look at
// again, and what is to be done follows from what there is. Any of them may be
// killed at any point.
//
//	jobs.go       Job    -> PodGroup, pods, plugin objects, status   (lifecycle, blueprint)
//	podgroups.go  pods   -> PodGroup status
//	queues.go     PodGroups, pods -> Queue status; the queues root and default
//
// What the scheduler says of a gang's pods is passed on to its PodGroup and its Job,
// where people look first.
//
// On a cluster without Volcano's definitions it waits for them.
package controller
