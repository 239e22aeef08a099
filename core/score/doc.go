// Package score says how good a placement is: ten objectives, each 0..100,
// combined by weights. It never says whether a placement is possible; that is
// place.Fit. Same request, view and set, same score.
//
// Six objectives, their names and default weights are those of the requirement
// documents (seed 003); four more are about what was measured (live.go). Where the document's formula gives every node the same
// value (priority, workload) or measures something else than its name
// (fragmentation), this package computes what it means; each function says so.
package score
