// Package drill breaks a local cluster on purpose and measures how it recovers: it starts
// a control plane with simulated nodes, agents, two schedulers and gpu-controller, injects
// faults one after the other or several at once, and compares the time until the service
// was whole again with a target.
//
// It looks from outside, through the API alone: what gpu-controller says of itself does
// not count.
//
// Read world.go (what runs), faults.go (what is broken, and what counts as recovered),
// exercise.go (how that is measured), run.go, report.go.
package drill
