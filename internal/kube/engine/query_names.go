package engine

import (
	"strings"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Names as they travel.

// gangRef names a gang.
func gangRef(g *engine.Gang) apiquery.GangRef {
	return apiquery.GangRef{Namespace: g.Namespace, Name: strings.TrimPrefix(g.Name, g.Namespace+"/")}
}

// podAnswer names a member's pod.
func podAnswer(m *workload.Member) apiquery.PodRef {
	return apiquery.PodRef{Namespace: m.Pod.Namespace, Name: m.Pod.Name, UID: string(m.Pod.UID)}
}
