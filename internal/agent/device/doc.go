// Package device is what the agent knows of a node's hardware: the inventory, a
// sample of its telemetry, events, and the one interface through which all of it is
// read and changed. Back ends (nvml, simulated) implement the interface; everything
// else in the agent is written against it and does not know which one runs.
//
// Reading order: backend.go (the interface), inventory.go, fields.go and sample.go
// (telemetry), event.go, offer.go and allocation.go (what is sold, and what a container
// was given), edits.go (what a container needs to use a device).
package device
