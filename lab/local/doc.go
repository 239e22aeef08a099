// Package local runs a real Kubernetes control plane on one machine: etcd,
// kube-apiserver, kube-controller-manager and KWOK as supervised child processes
// on free loopback ports, with TLS, RBAC and simulated GPU nodes.
//
// It decides nothing about scheduling and knows no scheduler: a caller starts its
// own programs beside the control plane with [Cluster.Run] and gives each an
// identity with [Cluster.KubeconfigFor].
//
// A cluster is throw-away. Its state lives under one directory and survives a
// stop and a start, but etcd does not wait for the disk, so a power cut may lose
// it. Ports and leaf certificates are new at every start; the two authorities,
// the service account key and the objects stay.
//
// Vocabulary: a Program is what to run, a Process is one program being kept
// alive; simulated nodes come from a [fleet.Fleet].
//
// Invariants: no child outlives this process, however it dies (spawner.go); one
// process at a time works on a state directory (lock.go); a component that
// crashes is restarted and the caller's Out says so, until it has crashed too
// often, which ends the cluster (process.go).
//
// Reading order: cluster.go, components.go, kwok.go, ready.go and port.go; process.go,
// spawner.go, lock.go and logs.go; pki.go and kubeconfig.go for identities; create.go for
// nodes and apply.go for manifests; component.go and prometheus.go for what runs beside
// the control plane, leader.go for which replica of it leads.
package local
