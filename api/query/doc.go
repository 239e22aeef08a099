// Package query is what the scheduler answers when it is asked: the paths, and the answers
// as they travel. The leader serves them (internal/kube/query); the command line
// (internal/ask) and the web page (internal/web) only show them.
//
//	GET  /query/v1/fleet      Fleet: what there is and what it does, in sums
//	GET  /query/v1/nodes      Nodes: every node with its devices and who holds them
//	GET  /query/v1/queues     Queues: limits, shares, use, balance
//	GET  /query/v1/history    History: shares and use of queues over time
//	GET  /query/v1/gangs      Gangs: what runs and what waits, in the order of starting
//	GET  /query/v1/why        Why: why one gang waits, what would help, and when it starts
//	GET  /query/v1/explain    Explain: why a pod is where it is
//	GET  /query/v1/timeline   Timeline: what was decided lately
//	GET  /query/v1/usage      Usage: GPU hours and their cost
//	POST /query/v1/whatif     WhatIf: what would become of a manifest
//	GET  /query/v1/dump       what `why` and `whatif` need to be answered elsewhere
//
// A caller needs the right to get the path (a nonResourceURL). What they may not list does
// not appear by name: pods and gangs of namespaces whose pods they may not list, nodes when
// they may not list nodes, queues when they may not list queues and have no pod in them.
// Such things are still counted, in Hidden fields and in sums.
//
// Times are RFC 3339, durations seconds, memory MiB, GPUs thousandths of one (milli) unless
// a name says otherwise. Fields are only ever added.
//
// Read paths.go, then the files of the answers: fleet.go, queues.go, gangs.go, why.go,
// explain.go, usage.go, whatif.go.
package query
