package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tangram-dev/tangram/api/query"
)

// Question is one request: a path of api/query, its parameters, and for whatif a body.
type Question struct {
	Path   string
	Params url.Values
	Body   []byte
}

// About is a question with parameters, names and values in turn; empty values are left out.
func About(path string, pairs ...string) Question {
	q := Question{Path: path, Params: url.Values{}}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Params.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// Object names what a question is about. Kind may be empty: any object with the name, a pod
// first.
type Object struct{ Kind, Namespace, Name string }

// WhyQuestion asks why an object waits.
func WhyQuestion(o Object) Question {
	return About(query.PathWhy, query.ParamKind, o.Kind, query.ParamNamespace, o.Namespace, query.ParamName, o.Name)
}

// ExplainQuestion asks why a pod is where it is.
func ExplainQuestion(namespace, pod string) Question {
	return About(query.PathExplain, query.ParamNamespace, namespace, query.ParamName, pod)
}

// WhatIfQuestion asks what would become of manifests; namespace is that of objects without
// one.
func WhatIfQuestion(namespace string, manifest []byte) Question {
	q := About(query.PathWhatIf, query.ParamNamespace, namespace)
	q.Body = manifest
	return q
}

// NodesQuestion asks for all nodes, or for those that changed after a version.
func NodesQuestion(since uint64) Question {
	if since == 0 {
		return About(query.PathNodes)
	}
	return About(query.PathNodes, query.ParamSince, strconv.FormatUint(since, 10))
}

// GangsParams choose gangs; the zero value is all.
type GangsParams struct {
	Namespace, Queue, Phase string
	Limit                   int
	Continue                string
}

// GangsQuestion asks for gangs.
func GangsQuestion(p GangsParams) Question {
	limit := ""
	if p.Limit > 0 {
		limit = strconv.Itoa(p.Limit)
	}
	return About(query.PathGangs, query.ParamNamespace, p.Namespace, query.ParamQueue, p.Queue,
		query.ParamPhase, p.Phase, query.ParamLimit, limit, query.ParamContinue, p.Continue)
}

// Get asks a question and decodes the answer.
func Get[T any](ctx context.Context, c *Client, q Question) (*T, error) {
	body, err := c.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	return Decode[T](body)
}

// Decode reads the body of an answer.
func Decode[T any](body []byte) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(body, v); err != nil {
		return nil, fmt.Errorf("the scheduler's answer is not understood (is this program older than it?): %w", err)
	}
	return v, nil
}

// Dump returns what `why` and `whatif` need to be answered elsewhere. The caller closes it;
// the context bounds the whole transfer.
func (c *Client) Dump(ctx context.Context) (io.ReadCloser, error) {
	answer, err := c.send(ctx, About(query.PathDump))
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
