// Package kubeflow tests Tangram beside Kubeflow's real operators, training-operator and
// Trainer, with their own sample manifests: a job starts whole or not at all, and none
// waits for pods that wait for it.
package kubeflow
