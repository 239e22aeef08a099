package query

import (
	"context"
	"slices"
	"strings"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// usage answers with GPU hours and cost of namespaces whose pods the caller may list, and
// with one sum of the others.
func (s *Server) usage(_ context.Context, c Caller, r *Request) (any, *apiquery.Error) {
	by := []string{"namespace"}
	if text := r.Get(apiquery.ParamBy); text != "" {
		by = strings.Split(text, ",")
	}
	for i, word := range by {
		if !slices.Contains(apiquery.UsageBy(), word) || slices.Contains(by[:i], word) {
			return nil, Invalid(apiquery.ParamBy, "%q is not a list of %s, each at most once", shorten(word), strings.Join(apiquery.UsageBy(), ", "))
		}
	}
	// Columns stand in one order, however they were asked for.
	slices.SortFunc(by, func(a, b string) int {
		return slices.Index(apiquery.UsageBy(), a) - slices.Index(apiquery.UsageBy(), b)
	})
	return s.source.Usage(by, func(namespaces []string) func(string) bool {
		prefetch(c, slices.Values(namespaces))
		return c.MayListPods
	}), nil
}
