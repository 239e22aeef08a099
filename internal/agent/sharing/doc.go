// Package sharing turns an allocation into what its container gets: a MIG instance is
// cut, an MPS daemon is started, the device nodes, mounts and environment are written as
// a CDI spec file. And it takes all of that away when the allocation is gone.
//
//	Prepare   before a container starts: instance, daemon, CDI file
//	Collect   now and then, with all live allocations: removes what is not among them
//
// The ways of sharing:
//
//   - A whole device: its MIG mode is off and no MPS daemon holds it.
//   - A MIG slice: an instance at the planned placement, cut on demand (package mig).
//   - A share by amount: MPS (package mps) or HAMi-core (package hami) enforces it.
//   - A turn: time-slicing, which has no limits, or one of equal MPS shares.
//
// It does not know pods, kubelet or the API server. Live allocations are what is said to
// be live; those prepared within the last Options.Grace count too, because a list may be
// older than the container that was just prepared.
//
// Reading order: options.go, allocation.go (what an allocation is made of), prepare.go,
// collect.go.
package sharing
