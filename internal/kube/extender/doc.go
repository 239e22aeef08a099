// Package extender offers core's decisions over kube-scheduler's HTTP extender protocol
// (filter, prioritize, bind, preempt), for clusters in which the scheduler cannot be
// replaced. Ledger and placement are those of the plugins. The protocol costs more per
// pod and has no reservation before the binding, so two pods may be sent to the same
// device. The second is rejected at bind and retried; no device is ever given twice.
package extender
