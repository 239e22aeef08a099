// Package recovery is the part of gpu-controller that reacts to sick nodes and devices.
// core/recovery decides; this package shows it the API (read.go), does what it says
// (write.go, evict.go, verify.go) and tells people (events, metrics.go).
//
// It writes nothing but its own: entries of spec.cordoned that begin with
// "gpu-controller:", the taint and annotation tangram.dev/isolated, a cordon that the
// annotation says is its own, evictions, the deletion of agents' pods, test pods, and one
// ConfigMap with what the mean time between failures is computed from.
//
// Read settings.go (the configuration file), loop.go, then the files named above, with
// maintenance.go and memory.go (what they read of nodes), definitions.go (the metrics) and
// save.go (figures that outlive the controller).
package recovery
