// Package plugin puts core behind kube-scheduler's extension points. The plugins
// translate, ask the shared state, translate back; they decide nothing.
//
//	GPUFilter   PreFilter: does any node fit, and if not, why not
//	            Filter: does this node fit (also in preemption's dry runs)
//	GPUScore    Score: how good is this node, by weighted objectives
//	GPUReserve  Reserve: choose devices and hold them; Unreserve: let go
//	GPUBind     Bind: write the Binding, the record on it
//
// For pods that ask for GPUs and express no preferences of their own, shortcut.go
// replaces kube-scheduler's scan of all nodes: it takes candidates from the
// ledger's index, best first, and lets kube-scheduler's own filters judge them
// one by one.
//
// setup.go assembles the scheduler; command.go is its command line.
package plugin
