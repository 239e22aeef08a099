package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/replica"
)

// offline answers why, whatif and explain from a file of tangram dump, by the scheduler's
// own code. All that is in the file is shown, whatever rights the reader has in the cluster.
func offline(ctx context.Context, file string, q ask.Question) ([]byte, error) {
	state, err := replica.Load(file)
	if err != nil {
		return nil, &ask.UsageError{Message: "--dump " + err.Error()}
	}
	namespace, name := q.Params.Get(query.ParamNamespace), q.Params.Get(query.ParamName)
	var answer any
	switch q.Path {
	case query.PathWhy:
		answer, err = state.Why(ctx, namespace, q.Params.Get(query.ParamKind), name)
	case query.PathExplain:
		answer, err = state.Explain(namespace, name)
	case query.PathWhatIf:
		answer, err = state.WhatIf(ctx, replica.Question{Manifest: q.Body, Namespace: namespace})
	default:
		return nil, fmt.Errorf("%s cannot be answered from a dump", q.Path)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}
