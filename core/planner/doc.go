// Package planner decides on which node a request goes, and on which devices. The
// scheduler's plugins, the extender and the simulator all ask it.
//
// It keeps no state of its own but an index over the ledger's nodes, and what it has
// learned of the mix of requests. A request is answered in three steps. The index orders
// the nodes on which the request may fit by what the placement costs the fleet (core/pack).
// The first of them are judged one by one: place.Fit chooses the devices, core/score rates
// the other objectives, and the sum decides; the search ends when no other node can beat
// the best (bound.go). When the index knows no node, every group of interchangeable nodes is
// asked once, which finds what the index cannot express, or the reasons why there is none.
//
// Invariants, tested: the candidates are exactly the nodes that can take a request, each
// once, and the first has the best total; no node scores better than the bound; a planner
// that followed the ledger's changes answers like a new one, and one restored from what was
// saved decides alike.
//
// Read planner.go (its state), shape.go and class.go (nodes and requests in the terms of
// core/pack), search.go with bound.go (the decision), rate.go (its explanation), demand.go
// (what a request is charged before it has devices), mix.go and saved.go (what is learned).
package planner
