// Package mig cuts MIG instances on demand: at the planned placement before a container
// starts, and away again when no allocation uses them.
//
// It knows what it made from a journal on disk and never changes an instance that is not
// in it, nor a MIG mode that it did not turn on. An instance that already exists at the
// wanted placement is used, also one of another program, but only its own are ever removed. Where
// another program manages MIG on the node (NVIDIA's MIG manager), it cuts and removes
// nothing.
//
// An instance is journalled before it is created. So one that exists although the agent
// died in between is known as its own; after a reboot, when all instances are gone, and
// when MIG mode was turned off by hand, the entries are forgotten.
//
// Which placements are wanted is decided elsewhere: Ensure is called before a container
// starts, Collect with everything that kubelet has allocated.
//
// Reading order: options.go, manager.go (Ensure, EnsureWhole), collect.go, own.go (what
// is ours), journal.go (its file).
package mig
