package answer

import (
	"cmp"
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// spell is an amount as Kubernetes writes it.
func spell(resource string, amount int64) (name, quantity string) {
	for n, q := range dialect.Quantities(map[arbiter.Resource]int64{arbiter.Resource(resource): amount}) {
		name, quantity = string(n), q.String()
	}
	return name, quantity
}

// ReasonAnswer is a reason as it travels, with names of nodes or without.
func ReasonAnswer(r *explain.Reason, nodes bool) apiquery.Reason {
	if !r.Is() {
		return apiquery.Reason{}
	}
	shown := *r
	if !nodes {
		shown = r.Anonymous()
	}
	out := apiquery.Reason{
		Code: r.Code.String(), Class: r.Class().String(), Never: r.Never, Need: r.Need, Exist: r.Exist, Placed: r.Placed,
		Role: r.Role, Subgroup: r.Subgroup, Level: r.Level, Queue: r.Queue, Namespace: r.Namespace, Resource: r.Resource,
		Want: r.Want, Limit: r.Limit, Used: r.Used, Ahead: r.Ahead, Detail: r.Detail, Text: shown.String(), Fit: r.Nodes.Fit(),
	}
	out.Nodes = causes(&r.Nodes, nodes)
	return out
}

// causes are a tally's lines as they travel.
func causes(t *explain.Tally, nodes bool) (out []apiquery.NodesCause) {
	for _, l := range t.Lines() {
		c := apiquery.NodesCause{Code: l.Code.String(), Nodes: l.Nodes, Need: l.Need, Best: l.Best, Detail: l.Detail, Text: l.String()}
		if nodes {
			c.Examples = exampleNames(l)
		}
		out = append(out, c)
	}
	return out
}

// exampleNames are the examples of a line.
func exampleNames(l explain.Line) []string { return nodeNames(l.Examples()) }

func nodeNames(ids []model.NodeID) (out []string) {
	for _, id := range ids {
		out = append(out, string(id))
	}
	return out
}

// hideNodes takes names of nodes, and devices by which nodes can be told, out of a gang, but
// for those where its own pods are: pods name them, and the caller may list the pods.
func hideNodes(g *apiquery.Gang) {
	g.Reserved = nil
	for i := range g.Members {
		if m := &g.Members[i]; m.State != "bound" { // the pod does not name it yet
			m.Node, m.Devices = "", nil
		}
	}
}

// HelpAnswers are the helps of a case as they travel.
func HelpAnswers(c *explain.Case) []apiquery.Help {
	out := []apiquery.Help{}
	for _, h := range explain.Helps(c) {
		out = append(out, apiquery.Help{Who: h.Who.String(), Text: h.Text, Command: h.Command})
	}
	return out
}

// StartAnswer is an expected start as it travels.
func StartAnswer(x *engine.Expectation, nodes bool) apiquery.Start {
	out := apiquery.Start{Because: x.Because, Known: cmp.Or(starts[x.Known], apiquery.StartsUnknown)}
	if x.At > 0 {
		at := time.Unix(0, x.At)
		out.At = &at
	}
	if nodes {
		out.Nodes = nodeNames(x.Nodes)
	}
	return out
}
