// Package record drags in Kubernetes.
package record

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1" // want: imports "k8s.io/apimachinery/pkg/apis/meta/v1": not allowed in api/record (a device plugin
)

var _ = []any{json.Marshal, metav1.Now}
