// Package planner decides on which node a request goes, and on which devices. The
// scheduler's plugins, the extender and the simulator all ask it.
//
// It keeps no state of its own but an index over the ledger's nodes. A request is
// answered in three steps. The index orders the nodes on which the request may fit
// by what the placement costs the fleet (core/pack). The first of them are judged
// one by one: place.Fit chooses the devices, core/score rates the other objectives,
// and the sum decides. When the index knows no node, every group of
// interchangeable nodes is asked once, which finds what the index cannot express,
// or the reasons why there is none.
//
// Read planner.go (its state), shape.go and class.go (nodes and requests in the terms
// of core/pack), search.go (the decision), rate.go (its explanation).
package planner
