// Package records knows which pods should get which devices of a node, and which got them. The
// scheduler's decision is the pod's record (api/record); what happened is what kubelet
// lists (podresources). Where they differ the record is corrected, because the container
// already has what kubelet gave it.
//
// It serves nothing, talks to no hardware and decides no placement. Resources and device
// IDs of other device plugins are read too (forms.go), so that it is of use beside them.
//
// Reading order: id.go and forms.go (what a device ID means), kubelet.go and pods.go (the
// two sources), asks.go, use.go (which uses of a GPU exclude each other),
// truth.go (the record that a pod should have), plan.go (which records to write, in which
// order), corrector.go (writes them), journal.go, forgotten.go, book.go and claimed.go
// (what containers and ResourceClaims hold now), next.go and identify.go (which container
// kubelet means), reserve.go (what must not be given), preferred.go and pack.go (what
// kubelet should take).
package records
