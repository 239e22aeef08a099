// Package chaos runs Tangram under load and faults and judges it from outside.
//
// A run starts a real control plane (etcd, kube-apiserver, kube-controller-manager,
// KWOK), two replicas of gpu-scheduler with leader election and gpu-controller, each
// a process of its own. A seeded load submits and deletes pods, gangs, Volcano Jobs
// and cordons nodes; faults kill and stop the processes, bind pods by hand and take
// nodes away. Package checker watches the API and judges every event; it shares no
// code with Tangram.
//
// A seed fixes what is submitted and which faults come in which order, not how the
// processes interleave: a breach of one run may need several runs to be seen again.
// The history around it is in the result.
//
// Reading order: config.go, run.go, world.go, fleet.go, watch.go, load.go and units.go,
// faults.go with handbind.go, nodeloss.go and leader.go, ability.go (when the scheduler
// can work), settle.go, recordings.go (what the scheduler decided, played again), report.go.
package chaos
