// Package autoscale tests Tangram with the real Karpenter, whose KWOK provider makes nodes
// as it would rent them: a control plane, gpu-scheduler, gpu-controller and Karpenter as
// child processes, KWOK as the kubelets. All tests share one cluster; each has a NodePool,
// nodes and pods of its own, kept apart by a node label, and they run at the same time.
//
// cluster-autoscaler cannot be built here and was not run.
package autoscale
