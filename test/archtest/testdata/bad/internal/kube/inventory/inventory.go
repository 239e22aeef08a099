// Package inventory lets in what only plugin may, what only tests may, and what comes after it.
package inventory

import (
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler" // want: imports "k8s.io/kubernetes/pkg/scheduler": not allowed in internal/kube/inventory (it is no library

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/engine" // want: imports "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/lab/local"            // want: imports "github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/coretest"        // want: imports "github.com/tangram-dev/tangram/test/coretest"
)

var _ = []any{kubernetes.NewForConfig, scheduler.New, coretest.Node, model.Age, engine.New, local.Up}
