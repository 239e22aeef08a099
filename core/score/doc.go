// Package score says how good a placement is: objectives, each 0..100, combined by weights.
// It never says whether a placement is possible; that is place.Fit. Same request, view and
// set, same score.
//
// An objective is one row of the table in objective.go: its name, what 100 means, what it
// depends on, its default weight and the function that computes it. Configuration, reports
// and docs/concepts/placement.md follow from the row.
//
// Six objectives, their names and default weights are those of requirement document 003;
// four are about what was measured. Where the document's formula gives every node the same
// value (priority, workload) or measures something else than its name (fragmentation), this
// package computes what it means; each function says so.
//
// Invariants, tested: a score is 0..100 and depends on nothing but the objective's Basis;
// neutral, 50, is the score of a node that an objective does not distinguish.
//
// Read objective.go, the table; weights.go, which combines; rate.go, topology.go, live.go
// and grade.go, the objectives themselves; plain.go, which requests need none of them.
package score
