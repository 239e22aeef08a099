package query

import (
	"context"
	"net/http"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// Question is one path.
type Question struct {
	Path, Method string
	Params       []string // the parameters that it knows; others are refused
	// Answer returns what is written as JSON, or what is wrong. It is called for callers
	// who may get the path, on the leader only. The context ends when the caller is gone or
	// the question has taken too long.
	Answer func(ctx context.Context, c Caller, r *Request) (any, *apiquery.Error)
	Locks  bool // it holds the engine's lock for every caller anew, so callers pay for it
}

// questions is the table of all questions.
func (s *Server) questions() []Question {
	return []Question{
		{Path: apiquery.PathFleet, Method: http.MethodGet, Answer: s.fleet},
		{Path: apiquery.PathWhy, Method: http.MethodGet, Params: []string{apiquery.ParamNamespace, apiquery.ParamName, apiquery.ParamKind}, Answer: s.why, Locks: true},
		{Path: apiquery.PathWhatIf, Method: http.MethodPost, Params: []string{apiquery.ParamNamespace}, Answer: s.whatIf},
		{Path: apiquery.PathDump, Method: http.MethodGet, Answer: s.dump},
		{Path: apiquery.PathExplain, Method: http.MethodGet, Params: []string{apiquery.ParamNamespace, apiquery.ParamName}, Answer: s.explain, Locks: true},
		{Path: apiquery.PathUsage, Method: http.MethodGet, Params: []string{apiquery.ParamBy}, Answer: s.usage},
		{Path: apiquery.PathNodes, Method: http.MethodGet, Params: []string{apiquery.ParamSince}, Answer: s.nodes},
		{Path: apiquery.PathQueues, Method: http.MethodGet, Answer: s.queues},
		{Path: apiquery.PathHistory, Method: http.MethodGet, Params: []string{apiquery.ParamQueue}, Answer: s.history},
		{Path: apiquery.PathGangs, Method: http.MethodGet, Params: []string{apiquery.ParamNamespace, apiquery.ParamName, apiquery.ParamPhase, apiquery.ParamQueue, apiquery.ParamLimit, apiquery.ParamContinue}, Answer: s.gangs},
		{Path: apiquery.PathTimeline, Method: http.MethodGet, Params: []string{apiquery.ParamSince, apiquery.ParamLimit}, Answer: s.timeline},
	}
}

// Table is all questions, for those who describe them: their Answers must not be called.
func Table() []Question { return (&Server{}).questions() }
