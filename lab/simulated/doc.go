// Package simulated is the hardware of nodes that do not exist: a device.Backend for
// each node of a fleet file, with telemetry that moves with what runs there and faults
// that can be injected.
//
// [Watch] feeds it from the API server: what runs from pods with records, what is wrong from
// the annotation tangram.dev/simulated-faults of GPUNodes. Time comes from a clock that
// is passed in. The same fleet, seed, times and inputs give the same telemetry, however
// often it is sampled.
//
// It knows nothing of kubelet, health or publishing: to the rest of the agent it is
// hardware like any other.
//
// Reading order: fleet.go, node.go (the state of one node), backend.go (the interface),
// load.go (what runs), dynamics.go (utilization, power, heat), sample.go, fault.go,
// event.go, mig.go and memory.go (cuts, and how they survive a restart), edits.go;
// watch.go and podload.go;
// simulator.go (gpu-agent's back end).
package simulated
