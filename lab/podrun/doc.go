// Package podrun is a node of a local cluster that runs Tangram's own pods as processes
// of this machine. An installation is tried with it as it is on a real cluster: what
// starts, with which flags, files, environment, address and ServiceAccount, when it
// counts as ready and when it is replaced, is read from the pods that the API server has.
//
// It is no kubelet, and knows just enough for pods of the chart: the image's last name is
// a program of a folder, ConfigMaps and Secrets are written as files, paths of the node
// lie below a folder, $(VARIABLES) are expanded, the readiness probe is asked over
// HTTP(S), a pod gets an address of its own in 127.0.0.0/8 and a token that is bound to
// it. There are no containers, limits, liveness probes, hooks or init containers, and every
// program that ends is started again; a
// program is told where the API server is by --kubeconfig, since the folder that clients
// in a pod look into cannot differ by process.
//
// Reading order: node.go (which pods there are), pod.go (the life of one), files.go,
// command.go, status.go.
package podrun
