// Package node runs a real kubelet and a real containerd beside the local control
// plane, and tests the node agent on them.
//
// A [Node] lives in mount and process namespaces of its own (holder/main.go), so that
// several can run at once, nothing of it reaches the machine's own kubelet, and its
// processes, mounts and network interfaces end with it, however the test ends. Control
// groups are the machine's: a node makes one and removes it. What stays on the machine
// is an empty folder /var/lib/kubelet, the place that kubelet has built in for device
// plugins.
//
// The agent runs outside, in the machine's namespaces: the node's folder has the same
// path there, and sockets do not care.
//
// What runs in the containers is the inspect program, which prints a view.View.
//
// Needs Linux, root, Go, runc, the CNI plugins, and kubelet and containerd as
// hack/build.sh node leaves them in bin/. Where one is missing the tests are skipped
// and say why; [require] has the list.
//
// Reading order: node.go, require.go, namespace.go, cgroups.go, containerd.go, image.go,
// kubelet.go, pods.go, text.go.
package node
