// Package answer answers questions about the engine's state: for internal/kube/query, for
// metrics, and for replicas. Answers have all names in them, but for Why and Explain, which
// leave out what the caller may not see.
//
// It reads and changes nothing. All it reads of the engine is a View, which it gets under
// the engine's lock from one Reader: what can be done without the lock is done afterwards,
// and what costs a walk over all gangs is drawn once for all callers (picture).
//
//	view.go      what is read under the lock
//	answer.go    the questions' common state; how old answers may be
//	fleet.go     the fleet in sums; state.go the same for metrics
//	nodes.go     nodes and their devices
//	gangs.go     gangs and their members; turns.go the order of those that wait
//	queues.go    queues; history.go what they used in the last hour
//	usage.go     GPU hours and cost
//	why.go       why an object's pods wait; subject.go which gangs are meant; words.go the
//	             parts of such answers
//	explain.go   why a pod is where it is
//	forecast.go  starts that only a forecast knows
//	picture.go   answers that are drawn once for all; kept.go reasons that were found
package answer
