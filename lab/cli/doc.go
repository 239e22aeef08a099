// Package cli is the laboratory's part of the tangram command: a cluster on this machine (up,
// down), simulated devices that fail (fault), recovery (drill), measurements (bench) and
// traces (simulate). cmd/tangram adds [Commands] to the questions of internal/cli.
//
// Reading order: commands.go, up.go, session.go (the steps of a start), bare.go, dra.go,
// monitoring.go and page.go (parts of it), demo.go, detach.go and tee.go (a start in the
// background), down.go, fault.go, drill.go.
package cli
