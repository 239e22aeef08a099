// Package bench measures schedulers against each other and against the API
// server itself, on one machine, in one run: the command "tangram bench".
//
// It decides nothing about scheduling and knows contenders only as programs that
// bind pods. It refuses to print a number for work that was not done: a result
// counts if the API says that every pod is bound, no node holds more than it has,
// no gang is bound in part and, for Tangram, every pod carries a record and no
// device is held twice.
//
// # Method
//
// A trial is one contender in one round. Every trial has a control plane of its own
// (etcd and kube-apiserver on loopback), started for it and thrown away. Deleting the
// pods of the previous contender would be quicker, but would leave the next one another
// etcd, other watch caches and another heap to run on. Starting afresh costs three
// seconds and makes all trials equal. Round n starts with the n-th contender, so that
// no contender always goes first.
//
// In a trial:
//
//  1. Nodes are created ready. Nothing else runs: no controller, no kubelet.
//  2. The contender starts, fills its caches and binds a few pods that do not
//     count. They are deleted again, and the contender becomes quiet.
//  3. The client creates the counted pods, while the contender binds them. The
//     clock runs from the first create call to the watch event that shows the
//     last pod with a node.
//  4. The final state is read from the API and checked.
//
// The client creates pods from encoded bytes and decodes one watch event per pod,
// because it shares the CPUs with what it measures; the report says what it took.
// All contenders use the same administrator's certificate, so the API server
// treats their requests alike.
//
// The ceiling (binder.go) is the rate of a program that only binds. It is no
// constant: it is what this API server on this machine gives in this minute, with
// the same client taking its share. Hence ratios are taken within a round, and
// the summary is their median. pods/s of different runs compare machines.
//
// Other processes on the machine slow down the contender that runs at the time. The
// benchmark knows how much CPU all its own processes took, and how much the machine:
// the difference is noise. A trial with too much of it is repeated (round.go), and the
// report says how much was left.
//
// # Vocabulary
//
// Contender: a program that binds. Trial: one measurement of it. Round: one trial
// of each contender. Cohort: pods that are created and awaited together. Gang: pods of
// a cohort that arrive together and, for Tangram, start together.
//
// Reading order: command.go and config.go (flags), run.go and round.go (the order of
// trials), trial.go (one measurement), contender.go and binder.go (the contenders),
// fleet.go, load.go, pending.go, cohort.go and watch.go (nodes, pods and clocks), gangs.go
// and claims.go (what gangs and ResourceClaims add to all of these), ask.go and scrape.go
// (questions and scrapes meanwhile), proc.go and locks.go (CPU, memory and lock times),
// check.go (validity), progress.go, stats.go, report.go and table.go (the report).
package bench
