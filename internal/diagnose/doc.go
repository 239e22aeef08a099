// Package diagnose says what is wrong with a GPU node, from what the API server has: the
// table of requirement document 001 (GPU not visible, XID errors, out of memory, slow,
// driver) as checks, with those of Tangram's own parts: agent, records, cordons, labels,
// MIG, ResourceSlices.
//
// Run is a pure function of Facts and returns one Result per check: ok, warn, fail or
// unknown, what was seen in numbers, and what to do as a command. FactsOf makes Facts of
// Kubernetes' objects; it reads nothing itself, internal/cli does.
//
// Reading order: facts.go, result.go, then one file per subject: node.go, agent.go,
// health.go, kubelet.go, allocations.go, mig.go; gather.go.
package diagnose
