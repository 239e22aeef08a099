// Package lifecycle decides the next state of a Volcano Job: a pure function from its
// spec, its status, its pods and the time to its next status, the pods to create and
// the pods to delete. It does no I/O and keeps no state.
//
// All memory is in the Job's status, and one decision is one status write. The adapter
// that carries out a plan writes the status first; after a crash at any point the next
// decision sees either the old or the new status, and continues from there.
//
// Pods have fixed names and carry the job's version. A restart raises the version and
// records in the status from which version on pods count (floors.go): older pods are
// deleted and ignored.
//
// Reading order: spec.go (the input), pod.go (the observed pods), floors.go, trigger.go
// and policy.go (events and the policies' reactions), decide.go (the phases), plan.go
// (what follows: pods to create and to delete), survey.go (the counts).
package lifecycle
