// Package device is what the agent knows of a node's hardware: the inventory, a
// sample of its telemetry, events, and the one interface through which all of it is
// read and changed. Back ends (nvml, simulated) implement the interface; everything
// else in the agent is written against it and does not know which one runs.
//
// Reading order: backend.go (the interface), inventory.go, sample.go (telemetry and events),
// allocation.go (what is sold, what a container was given, and what it needs to use it).
package device
