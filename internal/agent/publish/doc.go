// Package publish writes what an agent knows of one node to the API: the GPUNode named
// after the node (inventory in spec, health and telemetry in status), labels of the Node,
// and events about health. It decides what is worth a write and when; it measures
// nothing and knows no driver.
//
// The newest state is all that is kept: while the API server is away nothing piles up,
// and when it is back one write of each kind catches up.
//
// Reading order: state.go (what goes in), publisher.go (the loop), writer.go and object.go
// (which writes are due, and their retries), describe.go (the object that is wanted),
// overlay.go (laid over the one that exists, so that what this version does not know stays),
// pace.go (when telemetry is worth a write), labels.go, events.go, api.go.
package publish
