// Package sim replays traces on core, without Kubernetes: "tangram simulate".
//
// Read config.go, what can be asked; trace.go and openb.go, what is replayed;
// cluster.go and policy.go, on what; static.go, the published protocol without
// departures; lifetimes.go, the one with; run.go, all seeds of all policies;
// report.go, html.go and chart.go, what comes out. generate.go makes up traces.
// Baselines, as published: fgd.go with fragmentation.go, rules.go and random.go.
//
// "simulate queue" has its own: queueconfig.go; timed.go, the trace; queuepolicy.go,
// what policies are; queuerun.go, the events; witness.go, what must not happen;
// fairness.go, what each queue gets; queuereport.go, queuecommand.go and queuepage.go, what
// comes out. generatejobs.go makes up traces.
package sim
