package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tangram-dev/tangram/api/query"
)

// Object names what a question is about. Kind may be empty: whatever has the name, a pod
// first.
type Object struct{ Kind, Namespace, Name string }

// GangsParams choose gangs; the zero value is all.
type GangsParams struct {
	Namespace, Name, Queue, Phase string
	Limit                         int
	Continue                      string
}

// FleetQuestion and the others below are the questions as they travel.
func FleetQuestion() Question { return Question{Path: query.PathFleet} }

// NodesQuestion asks for all nodes, or for what changed after a version.
func NodesQuestion(since uint64) Question { return sinceQuestion(query.PathNodes, since) }

// QueuesQuestion asks for all queues.
func QueuesQuestion() Question { return Question{Path: query.PathQueues} }

// HistoryQuestion asks for queues over time.
func HistoryQuestion() Question { return Question{Path: query.PathHistory} }

// TimelineQuestion asks for what was decided after a version.
func TimelineQuestion(since uint64) Question { return sinceQuestion(query.PathTimeline, since) }

// WhyQuestion asks why an object waits.
func WhyQuestion(o Object) Question { return Question{Path: query.PathWhy, Params: o.params()} }

// ExplainQuestion asks why a pod is where it is.
func ExplainQuestion(o Object) Question { return Question{Path: query.PathExplain, Params: o.params()} }

// WhatIfQuestion asks what would become of manifests; namespace is that of objects without
// one.
func WhatIfQuestion(namespace string, manifest []byte) Question {
	return Question{Path: query.PathWhatIf, Params: params(query.ParamNamespace, namespace), Body: manifest}
}

// UsageQuestion asks for GPU hours and cost, summed by words of query.UsageBy.
func UsageQuestion(by []string) Question {
	return Question{Path: query.PathUsage, Params: params(query.ParamBy, strings.Join(by, ","))}
}

// DumpQuestion asks for the dump.
func DumpQuestion() Question { return Question{Path: query.PathDump} }

// GangsQuestion asks for gangs.
func GangsQuestion(p GangsParams) Question {
	limit := ""
	if p.Limit > 0 {
		limit = strconv.Itoa(p.Limit)
	}
	return Question{Path: query.PathGangs, Params: params(query.ParamNamespace, p.Namespace, query.ParamName, p.Name,
		query.ParamQueue, p.Queue, query.ParamPhase, p.Phase, query.ParamLimit, limit, query.ParamContinue, p.Continue)}
}

func sinceQuestion(path string, since uint64) Question {
	if since == 0 {
		return Question{Path: path}
	}
	return Question{Path: path, Params: params(query.ParamSince, strconv.FormatUint(since, 10))}
}

func (o Object) params() url.Values {
	return params(query.ParamKind, o.Kind, query.ParamNamespace, o.Namespace, query.ParamName, o.Name)
}

// params are names and values in turn; empty values are left out.
func params(pairs ...string) url.Values {
	out := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out.Set(pairs[i], pairs[i+1])
		}
	}
	return out
}

// Fleet asks for sums of the fleet.
func (c *Client) Fleet(ctx context.Context) (*query.Fleet, error) {
	return decode[query.Fleet](ctx, c, FleetQuestion())
}

// Nodes asks for nodes with their devices; since 0 for all of them.
func (c *Client) Nodes(ctx context.Context, since uint64) (*query.Nodes, error) {
	return decode[query.Nodes](ctx, c, NodesQuestion(since))
}

// Queues asks for queues.
func (c *Client) Queues(ctx context.Context) (*query.Queues, error) {
	return decode[query.Queues](ctx, c, QueuesQuestion())
}

// History asks for queues over time.
func (c *Client) History(ctx context.Context) (*query.History, error) {
	return decode[query.History](ctx, c, HistoryQuestion())
}

// Gangs asks for what runs and waits.
func (c *Client) Gangs(ctx context.Context, p GangsParams) (*query.Gangs, error) {
	return decode[query.Gangs](ctx, c, GangsQuestion(p))
}

// Why asks why an object waits.
func (c *Client) Why(ctx context.Context, o Object) (*query.Why, error) {
	return decode[query.Why](ctx, c, WhyQuestion(o))
}

// Explain asks why a pod is where it is.
func (c *Client) Explain(ctx context.Context, o Object) (*query.Explain, error) {
	return decode[query.Explain](ctx, c, ExplainQuestion(o))
}

// Timeline asks for what was decided lately; since 0 for all that is remembered.
func (c *Client) Timeline(ctx context.Context, since uint64) (*query.Timeline, error) {
	return decode[query.Timeline](ctx, c, TimelineQuestion(since))
}

// WhatIf asks what would become of manifests (YAML or JSON, several documents).
func (c *Client) WhatIf(ctx context.Context, namespace string, manifest []byte) (*query.WhatIf, error) {
	return decode[query.WhatIf](ctx, c, WhatIfQuestion(namespace, manifest))
}

// Usage asks for GPU hours and cost.
func (c *Client) Usage(ctx context.Context, by []string) (*query.Usage, error) {
	return decode[query.Usage](ctx, c, UsageQuestion(by))
}

// Dump returns what `why` and `whatif` need to be answered elsewhere. The caller closes it;
// the context bounds the whole transfer.
func (c *Client) Dump(ctx context.Context) (io.ReadCloser, error) {
	answer, err := c.send(ctx, DumpQuestion())
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
		if err != nil {
			return nil, &UnreachableError{"gpu-scheduler", err}
		}
		return nil, decodeError(answer.StatusCode, body)
	}
	return answer.Body, nil
}

func decode[T any](ctx context.Context, c *Client, q Question) (*T, error) {
	body, err := c.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := json.Unmarshal(body, out); err != nil {
		return nil, fmt.Errorf("%s: the answer is not understood: %w", q.Path, err)
	}
	return out, nil
}
