// Package records knows which pods should get which devices of a node, and which got them. The
// scheduler's decision is the pod's record (api/record); what happened is what kubelet
// lists (podresources). Where they differ the record is corrected, because the container
// already has what kubelet gave it.
//
// It serves nothing, talks to no hardware and decides no placement. Resources and device
// IDs of other device plugins are read too (forms.go), so that it is of use beside them.
//
// Reading order: forms.go (what a device ID means), kubelet.go (the two sources: kubelet and
// pods), asks.go, use.go (which uses of a GPU exclude each other), truth.go (the record that a pod
// should have), plan.go (which records to write, in which order), corrector.go (writes them),
// journal.go and book.go (what containers and ResourceClaims hold now), identify.go (which
// container kubelet means), reserve.go (what must not be given), preferred.go (what kubelet
// should take).
package records
