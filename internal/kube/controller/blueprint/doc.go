// Package blueprint draws the objects a Volcano Job is made of: its pods, its
// PodGroup, its volumes, and what its plugins add. It decides nothing and talks to
// no client: lifecycle says which pods there should be, the controller creates them.
//
// The words on pods (labels, annotations, environment, file names) are those that
// Volcano writes, so that workloads which read them run unchanged.
//
// A plugin is one file: svc.go, env.go, ssh.go, pytorch.go, behind the interface in
// plugin.go.
package blueprint
