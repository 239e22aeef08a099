// Package ask is a client of the scheduler's query API (api/query): it finds the leader,
// reaches it with the credentials of a kubeconfig, asks, and returns the answers as they
// came. It computes nothing: what an answer lacks is the server's to add.
//
// The leader writes where it answers, and with which certificate, into an annotation of
// its Lease. The client reads the Lease from the API server, connects to that address, or,
// if it does not answer from here and the leader is a pod, through a port-forward of the
// API server. A certificate other than the Lease's ends the attempt before any credential
// is sent. When the leader changes, the Lease is read again and the question repeated.
//
// Reading order: options.go (which cluster, as which user), find.go (the Lease), route.go and
// forward.go (the way there), client.go (one question), questions.go (all of them),
// handler.go (for a page), errors.go.
package ask
