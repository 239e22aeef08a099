// Package cluster is the harness of the tests on a real API server: a control plane of child
// processes with nodes, Tangram's programs, operators of other projects and callers on it,
// and the steps that such tests share.
//
// Options say what a cluster consists of. A package of tests has one cluster for all of them
// (Shared), or one for each (ForTest). A World is a cluster as one test sees it: an error in
// one of its methods ends that test. What only one package needs is in that package.
//
// Read options.go and cluster.go (start and end), world.go (one test's view), pod.go (how a
// pod is made) and pods.go (what a test does with pods), shared.go (one cluster for a package)
// and bin.go (its programs); then as needed objects.go, component.go and stock.go
// (schedulers), operator.go and kueue.go, user.go, account.go and deny.go (callers), ask.go, commands.go,
// metrics.go, follow.go (pods by a watch), gangs.go and records.go (what must hold of them),
// seed.go.
package cluster
