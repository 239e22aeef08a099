package engine

import (
	"strings"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Core's values as they travel.

// reasonAnswer is a reason as it travels.
func reasonAnswer(r *explain.Reason) apiquery.Reason {
	if !r.Is() {
		return apiquery.Reason{}
	}
	out := apiquery.Reason{
		Code: r.Code.String(), Class: r.Class().String(), Never: r.Never, Need: r.Need, Exist: r.Exist, Placed: r.Placed, Role: r.Role, Subgroup: r.Subgroup, Level: r.Level,
		Queue: r.Queue, Namespace: r.Namespace, Resource: r.Resource, Want: r.Want, Limit: r.Limit, Used: r.Used, Ahead: r.Ahead, Detail: r.Detail, Text: r.String(), Fit: r.Nodes.Fit(),
	}
	for _, l := range r.Nodes.Lines() {
		out.Nodes = append(out.Nodes, apiquery.NodesCause{Code: l.Code.String(), Nodes: l.Nodes, Need: l.Need, Best: l.Best, Detail: l.Detail, Text: l.String()})
	}
	return out
}

// gangRef names a gang.
func gangRef(g *engine.Gang) apiquery.GangRef {
	return apiquery.GangRef{Namespace: g.Namespace, Name: strings.TrimPrefix(g.Name, g.Namespace+"/")}
}

// podAnswer names a member's pod.
func podAnswer(m *workload.Member) apiquery.PodRef {
	return apiquery.PodRef{Namespace: m.Pod.Namespace, Name: m.Pod.Name, UID: string(m.Pod.UID)}
}
