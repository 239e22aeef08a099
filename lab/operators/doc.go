// Package operators runs the operators of other projects beside a local cluster: KubeRay,
// JobSet, LeaderWorkerSet, Kueue, Kubeflow's training-operator and Trainer, Karpenter with
// its KWOK provider. Each is the real program, built from its module by `make operators`,
// and runs as a child process of the cluster.
//
// It decides nothing and knows nothing of what the operators do. What differs from one to
// the next is a row of the table in table.go: arguments, configuration, and how the API
// server reaches its webhooks.
//
// Reading order: run.go, table.go, install.go.
package operators
