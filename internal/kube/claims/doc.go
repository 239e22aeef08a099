// Package claims is what the engine knows of ResourceClaims: which devices allocated claims
// hold, which of those no pod carries, which pods have to be read again when a claim
// changes, and which allocations failed starts left behind.
//
// It never calls the engine. Events come in as calls; what follows from them goes out as
// values: pods that are to be read again, and what core is to be told (Change). What it
// reads of core and of the gate is two small interfaces. A nil *Claims stands for a cluster
// whose claims are not followed: it holds nothing and has nothing to say.
//
// All methods are called under the engine's lock, but for Ask, Vacated and those that say
// otherwise.
//
//	claims.go    what a pod's claims mean and hold
//	own.go       claims that hold devices in their own name, since no pod carries them
//	reread.go    which pods are to be read again, and when
//	chosen.go    what kube-scheduler's allocator chose for a pod's claims
//	giveback.go  allocations that failed starts left behind
//	vacate.go    claims whose users were evicted together
//	shared.go    what is read without the engine's lock
//	idle.go      claims that hold devices though no pod uses them, for questions
package claims
