// Package blueprint builds the objects of a Volcano Job: its pods, its PodGroup, its
// volumes, and the objects of its plugins. It decides nothing and uses no client:
// lifecycle says which pods should exist, the controller creates them.
//
// Labels, annotations, environment variables and file names are those that Volcano
// writes, so that workloads which read them run unchanged.
//
// Read pod.go, podgroup.go and volumes.go. A plugin is one file, svc.go, env.go, ssh.go or
// pytorch.go, behind the interface in plugin.go.
package blueprint
