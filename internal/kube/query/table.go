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
		{apiquery.PathWhy, http.MethodGet, []string{apiquery.ParamNamespace, apiquery.ParamName, apiquery.ParamKind}, s.why},
		{apiquery.PathWhatIf, http.MethodPost, []string{apiquery.ParamNamespace}, s.whatIf},
		{apiquery.PathDump, http.MethodGet, nil, s.dump},
		{apiquery.PathExplain, http.MethodGet, []string{apiquery.ParamNamespace, apiquery.ParamName}, s.explain},
		{apiquery.PathNodes, http.MethodGet, []string{apiquery.ParamSince}, s.nodes},
		{apiquery.PathQueues, http.MethodGet, nil, s.queues},
		{apiquery.PathHistory, http.MethodGet, []string{apiquery.ParamQueue}, s.history},
		{apiquery.PathGangs, http.MethodGet, []string{apiquery.ParamNamespace, apiquery.ParamName, apiquery.ParamPhase, apiquery.ParamQueue, apiquery.ParamLimit, apiquery.ParamContinue}, s.gangs},
		{apiquery.PathTimeline, http.MethodGet, []string{apiquery.ParamSince, apiquery.ParamLimit}, s.timeline},
	}
}

// Table is all questions, for those who describe them: their Answers must not be called.
func Table() []Question { return (&Server{}).questions() }
