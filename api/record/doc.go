// Package record is the codec of a pod's record: the annotation
// tangram.dev/devices, which says which devices each of the pod's containers
// was given. The scheduler writes it with the Binding itself; after a restart
// the sum of the records on live pods is the state of the cluster.
//
// A record is text that every user who may edit a pod can forge, so Decode is
// strict: it bounds its input, refuses what it does not know, and returns
// either a whole valid Record or an *Error that names the field. What it cannot
// know is whether the record agrees with the pod that carries it: that is the
// reader's to check, against the pod's own request and node.
//
// The format, its invariants and how it may grow are in docs/formats/record.md.
//
// Reading order: record.go (types, limits), validate.go (the invariants, one
// place for both directions), encode.go, decode.go (fields), scan.go (tokens).
package record
