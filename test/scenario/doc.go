// Package scenario runs stories about a cluster: text files that say which nodes
// and pods there are, what happens to them, and what Tangram is expected to
// answer. The language is described in docs/guides/scenarios.md, the files are in
// test/scenarios.
//
// The same files run on three engines, which must give the same bytes:
//
//	core     objects -> internal/dialect -> core/engine: no scheduler, no API server
//	plugin   the real kube-scheduler with our plugins, on a fake clientset
//	cluster  gpu-scheduler as a process, on a real API server
//
// So a difference between what core decides and what a pod gets in a cluster
// shows as a failing line of a story.
//
// The package refuses to know what is right: it prints what the objects in the
// API say, and datadriven compares that with the file. What it does check by
// itself, in every file and on every engine: no device is given to two pods, and
// the scheduler's own ledger equals one that is rebuilt from the API alone.
//
// Read scenario.go (files and steps), verbs.go, podverbs.go, gangverbs.go and measure.go,
// then line.go, node.go, nodetopology.go and pod.go (the words), state.go and report.go
// (the answers), engine.go and the engines: core.go with coresync.go and corestep.go;
// plugin.go with fakeapi.go; cluster.go with clusterapi.go, clusterother.go and
// clusterask.go. ask.go and question.go are how a story lets a scheduler catch up.
package scenario
