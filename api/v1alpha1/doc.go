// Package v1alpha1 holds the Kubernetes objects Tangram defines. A GPUNode is
// what the agent sees of one node's GPUs; the scheduler reads it and never
// writes it.
//
// +kubebuilder:object:generate=true
// +groupName=tangram.dev
package v1alpha1
