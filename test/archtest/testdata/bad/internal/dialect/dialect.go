// Package dialect talks to a cluster.
package dialect

import (
	"k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes" // want: imports "k8s.io/client-go/kubernetes"
)

var _ = []any{v1.Pod{}, kubernetes.NewForConfig}
