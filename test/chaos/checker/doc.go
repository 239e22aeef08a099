// Package checker decides from the outside whether a scheduler of GPUs keeps its
// promises. It sees pods as a watch of the API server delivers them and imports no
// code of this repository (test/archtest holds that): the record on a pod is
// decoded here a second time, from docs/formats/record.md alone, and devices, queues
// and gangs are what the load itself created and wrote on its pods as labels.
//
// Invariants it checks on every event:
//
//   - no double booking: a device that is held whole has one holder; shares of a
//     device add up to its memory and compute at most; MIG slices do not overlap; the
//     three kinds never mix on one device; a node is not given out beyond its devices
//     when pods without a record are counted (devices.go);
//   - no breach of a limit: the pods of a queue never hold more than its capability,
//     nor those of its ancestors (limits.go);
//   - no half gang: a gang with members bound has its minimum bound within
//     [Limits].HalfGang, counted while the scheduler was able to work (gangs.go,
//     able.go);
//   - every bound GPU pod has a record that its own spec and the node confirm
//     (record.go, claims.go).
//
// A second binder binds pods by hand ([LabelHand]). A conflict that such a binding
// causes is the fault's own doing: the pod counts as one whose devices are unknown
// from then on. What the scheduler binds onto it later counts like any other double.
//
// Time is passed in. Every method is safe for concurrent use.
//
// Reading order: checker.go, facts.go and pod.go (what it knows), claims.go, record.go,
// devices.go, doubles.go, limits.go, gangs.go, able.go, fits.go; breach.go and history.go
// (what it reports).
package checker
