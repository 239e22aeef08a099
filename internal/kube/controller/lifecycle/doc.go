// Package lifecycle decides what becomes of a Volcano Job: a pure function from its
// spec, its status, its pods and the time to the status it should have, the pods to
// create and the pods to delete. It does no I/O and keeps no state.
//
// Everything it must remember is in the Job's status, and one decision is one
// status write. The adapter that carries out a plan writes the status first; after a crash at
// any point the next decision sees either the old status or the new one, and goes on
// from there.
//
// Pods have fixed names and carry the job's version. A restart raises the version
// and notes in the status from which version on pods count (floors.go): older pods
// are deleted and forgotten, which is all that a restart is.
//
// Reading order: spec.go (what is asked), pod.go (what there is), floors.go,
// trigger.go and policy.go (what happened and what to do about it), decide.go (the
// phases), survey.go (the counts).
package lifecycle
