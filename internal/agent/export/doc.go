// Package export shows telemetry to Prometheus under the names, types and labels of
// NVIDIA's dcgm-exporter, so that dashboards and alerts made for that work unchanged, and
// the agent's own metrics beside it.
//
// A scrape reads what was sampled last; it never asks the driver. Series exist for
// devices of the node, for MIG instances and for containers that hold devices, and for
// nothing else: they vanish with what they describe. Names of pods come from the node's
// own pods through the functions that the caller passes.
//
// Read in this order: fields.go (the table of DCGM's metrics), reading.go (what comes in),
// collector.go (what goes out), agent.go (the agent's own), reachable.go (whether the API
// server answers), table.go (all of them, for the documentation).
package export
