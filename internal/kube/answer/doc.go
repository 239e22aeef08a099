// Package answer answers questions about the engine's state: for internal/kube/query, for
// metrics, and for replicas. Answers have all names in them, but for Why and Explain, which
// leave out what the caller may not see.
//
// It reads and changes nothing. All it reads of the engine is a View, which it gets under
// the engine's lock from one Reader: what can be done without the lock is done afterwards,
// and what costs a walk over all gangs is drawn once for all callers (picture).
//
//	answer.go   what is read under the lock; how old answers may be
//	fleet.go    the fleet in sums, and the same for metrics; GPU hours and cost
//	nodes.go    nodes and their devices
//	gangs.go    gangs and their members; the order of those that wait
//	queues.go   queues, and what they used in the last hour
//	why.go      why an object's pods wait, and when they start
//	explain.go  why a pod is where it is; the parts of such answers
//	picture.go  answers that are drawn once for all, and reasons that were found
package answer
