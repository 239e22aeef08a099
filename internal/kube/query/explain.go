package query

import (
	"context"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// explain answers about a pod.
func (s *Server) explain(_ context.Context, c Caller, r *Request) (any, *apiquery.Error) {
	namespace, name, wrong := object(c, r)
	if wrong != nil {
		return nil, wrong
	}
	out, problem := s.source.Explain(namespace, name, c)
	if problem != "" {
		return nil, NotFound("%s", problem)
	}
	return out, nil
}
