// Package sim replays traces on core, without Kubernetes: "tangram simulate".
//
// Read config.go, what can be asked; trace.go and openb.go, what is replayed;
// cluster.go and policy.go, on what; static.go, the published protocol without
// departures; lifetimes.go, the one with; report.go, what comes out.
package sim
