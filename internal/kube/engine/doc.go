// Package engine puts core's engine behind one lock and one queue of events. Informers'
// handlers only say what to look at; before a question or a step the queue is drained,
// and nodes and pods are read from the informers' stores. So an event may be repeated or
// reordered without harm, and no handler waits for a decision.
//
//	feed.go      what happened: informers' events, drained under the lock
//	sync.go      Node and Pod as core's events; queues.go, quotas.go, budgets.go the rest
//	facts.go     what core asks: Kubernetes' own rules, as of the last drain
//	step.go      one decision, and what is to be carried out
//	engine.go    the lock; core's effects for the gate and for the next step
//	gate.go      what kube-scheduler's queue asks under its own lock: no lock here
//	commit.go    the scheduling cycle: begin, take, reserved, confirm, failed
//	ask.go       questions about the state
//	check.go     the ledger, limits and gangs against what the API says
//	metrics.go   how long the lock is held, checks that failed
//
// Nothing here decides; core does. Nothing of what is returned is carried out under the
// lock: kube-scheduler's queue asks the gate under its own.
package engine
