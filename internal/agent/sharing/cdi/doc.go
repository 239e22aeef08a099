// Package cdi writes one Container Device Interface spec file for each allocation, from
// which the container runtime gives a container its device nodes, mounts and
// environment.
//
// The kind is tangram.dev/allocation and the device's name is the allocation's ID. A
// file is replaced in one step or not at all: the runtime reads the folder at any time,
// and a container that restarts while the disk is full must still find what it had.
//
// The package decides nothing about devices; it refuses what the CDI library calls
// invalid. Reading order: spec.go (edits to spec), store.go (files).
package cdi
