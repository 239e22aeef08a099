// Package watch follows objects that only some clusters have: GPUNodes,
// NodeResourceTopologies, PodGroups, Queues and the owners of gangs. A kind whose CRD is
// missing is absent until it is installed; nothing waits for it.
package watch
