// Package plugin is where k8s.io/kubernetes is let in.
package plugin

import (
	"sync"

	"k8s.io/kubernetes/pkg/scheduler"

	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/internal/kube/engine"
)

var state sync.Map

var _ = []any{scheduler.New, place.Plan{}, engine.New, &state}
