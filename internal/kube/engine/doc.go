// Package engine puts core's engine behind one lock and one queue of events. Informers'
// handlers only say what to look at; before a call or a step the queue is drained, and nodes
// and pods are read from the informers' stores. So an event may be repeated or reordered
// without harm, and no handler waits for a decision.
//
// Nothing here decides; core does. Nothing of what is returned is carried out under the
// lock: kube-scheduler's queue asks the gate under its own.
//
// # State and its owners
//
// Engine has the lock, the feed and the gate. Everything else is reached under the lock,
// through the driver, and has one owner:
//
//	core          nodes, devices, queues, gangs, releases          core/engine
//	work          which pods belong together, what they ask for    internal/kube/workload
//	claims        what ResourceClaims hold, pods to read again     internal/kube/claims
//	contests      records that contradict each other               internal/kube/contest
//	demands       what autoscalers are asked for                   internal/kube/demand
//	observer      wait times, GPU hours, the timeline              internal/kube/observe
//	notices       what waiting pods were told                      internal/kube/report
//	complaints    problems of objects that were reported           internal/kube/report
//	freshness     until when nodes' telemetry counts               internal/kube/inventory
//	facts         Node objects and disruption budgets              facts.go, budgets.go
//	queues        the tree of queues as the API describes it       queues.go
//	quotas        what namespaces may use                          quotas.go
//	refusals      why gangs were last refused, for the audit log   tell.go
//	driver        pods that arrived, nodes' domains, the outbox    driver.go
//
// None of these calls the engine: events go in, values come out. Questions read them through
// one View (internal/kube/answer).
//
// # Reading order
//
//	engine.go    the lock; making an engine
//	feed.go      what happened: informers' events, drained under the lock
//	driver.go    the parts; core's effects for the gate and for the next step
//	sync.go      Node and Pod as core's events; claims.go, queues.go, quotas.go and levels.go
//	             the rest
//	facts.go     what core asks: Kubernetes' own rules, as of the last drain; budgets.go
//	step.go      one decision, and what is to be carried out; tell.go why gangs wait
//	gate.go      what kube-scheduler's queue asks under its own lock: no lock here
//	commit.go    a scheduling cycle: begin, take, reserved, confirm, failed
//	ask.go       requests of pods, and what nodes say to them
//	settings.go  how the engine is configured
//	memory.go    what was learned, kept for another process
//	snapshot.go  the state, for a replica, and back
//	record.go    a recording of what core is told and decides
//	check.go     the ledger, limits and gangs against what the API says
//	lock.go      the lock: questions go before those that wait for their turn
package engine
