package query

import (
	apiquery "github.com/tangram-dev/tangram/api/query"
)

// Source answers questions with all names in them; what a caller may not see is taken out
// afterwards. Answers are shared between callers and must not be changed. A source must not
// hold up scheduling: it holds the engine's lock for 10 ms at most at a time.
//
// internal/kube/engine implements it, in files query_*.go.
type Source interface {
	// Fleet is what there is, but for Scheduler.Holder and Version.
	Fleet() apiquery.Fleet
	// Usage is GPU hours summed by words of apiquery.UsageBy. visible is called once, with
	// all namespaces that occur, and says whose hours are told apart; the others are Hidden.
	Usage(by []string, visible func(namespaces []string) func(namespace string) bool) apiquery.Usage
}
