package query

import (
	"context"
	"net/http"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// Question is one path.
type Question struct {
	Path, Method string
	// Params are the parameters that it knows; others are refused.
	Params []string
	// Answer returns what is written as JSON, or what is wrong. It is called for callers
	// who may get the path, on the leader only. The context ends when the caller is gone or
	// the question has taken too long.
	Answer func(ctx context.Context, c Caller, r *Request) (any, *apiquery.Error)
}

// questions is the table of all questions.
func (s *Server) questions() []Question {
	return []Question{
		{apiquery.PathFleet, http.MethodGet, nil, s.fleet},
		{apiquery.PathUsage, http.MethodGet, []string{apiquery.ParamBy}, s.usage},
	}
}

// fleet answers with sums alone: they are for everyone who may ask.
func (s *Server) fleet(_ context.Context, _ Caller, _ *Request) (any, *apiquery.Error) {
	f := s.source.Fleet()
	f.Scheduler.Holder, f.Scheduler.Version = s.options.Holder, s.options.Version
	return f, nil
}
