// Package operators tests Tangram with the real KubeRay, JobSet and LeaderWorkerSet
// operators, which make pods as they do on any cluster: a control plane, gpu-scheduler,
// gpu-controller and the operators as child processes, KWOK as the kubelets. All tests share
// one cluster and run one after the other.
//
// Half gangs are judged from outside, by the checker of test/chaos, from what the API server
// says of pods. `make operators` builds the operators.
package operators
