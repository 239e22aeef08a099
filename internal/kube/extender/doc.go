// Package extender offers core's decisions over kube-scheduler's HTTP extender
// protocol (filter, prioritize, bind, preempt), for clusters whose scheduler cannot
// be replaced. It is the same ledger and the same placement as the plugins; the
// protocol costs more per pod and knows no reservations before the binding, so two
// pods may be sent for the same device. The second is refused at bind and tried
// again; no device is ever given twice.
package extender
