package query

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// The questions that are answered from the engine's pictures.

// fleet answers with sums alone: they are for everyone who may ask.
func (s *Server) fleet(_ context.Context, _ Caller, _ *Request) (any, *apiquery.Error) {
	f := s.source.Fleet()
	f.Scheduler.Holder, f.Scheduler.Version = s.options.Holder, s.options.Version
	return f, nil
}

// nodes answers with all nodes, or with those that changed.
func (s *Server) nodes(_ context.Context, c Caller, r *Request) (any, *apiquery.Error) {
	since, wrong := r.Uint(apiquery.ParamSince, 0, math.MaxUint64)
	if wrong != nil {
		return nil, wrong
	}
	return filterNodes(s.source.Nodes(since), c), nil
}

// queues answers with the queues that the caller may see.
func (s *Server) queues(_ context.Context, c Caller, _ *Request) (any, *apiquery.Error) {
	queues, namespaces := s.source.Queues()
	return filterQueues(queues, visibleQueues(&queues, namespaces, c)), nil
}

// history answers with the past of the queues that the caller may see, or of one of them.
func (s *Server) history(_ context.Context, c Caller, r *Request) (any, *apiquery.Error) {
	queues, namespaces := s.source.Queues()
	sees, one := visibleQueues(&queues, namespaces, c), r.Get(apiquery.ParamQueue)
	if one != "" && (!sees(one) || !slices.ContainsFunc(queues.Items, func(q apiquery.Queue) bool { return q.Name == one })) {
		return nil, NotFound("no queue %q that you may see", shorten(one))
	}
	return s.source.History(func(queue string) bool { return sees(queue) && (one == "" || one == queue) }), nil
}

// phases are what ParamPhase may be.
var phases = []string{apiquery.PhaseWaiting, apiquery.PhaseStarting, apiquery.PhaseRunning, apiquery.PhasePartial}

const defaultLimit = 500 // how many gangs a page has without a limit in the question

// gangs answers with gangs of namespaces whose pods the caller may list, in the order in
// which they start.
func (s *Server) gangs(_ context.Context, c Caller, r *Request) (any, *apiquery.Error) {
	namespace, name, phase, queue := r.Get(apiquery.ParamNamespace), r.Get(apiquery.ParamName), r.Get(apiquery.ParamPhase), r.Get(apiquery.ParamQueue)
	limit, wrong := r.Uint(apiquery.ParamLimit, defaultLimit, apiquery.MaxLimit)
	switch {
	case wrong != nil:
		return nil, wrong
	case limit == 0:
		return nil, Invalid(apiquery.ParamLimit, "must be above 0")
	case phase != "" && !slices.Contains(phases, phase):
		return nil, Invalid(apiquery.ParamPhase, "%q is none of %s", shorten(phase), strings.Join(phases, ", "))
	case name != "" && namespace == "":
		return nil, Invalid(apiquery.ParamNamespace, "is needed with %s", apiquery.ParamName)
	}
	from, wrong := readPlace(r.Get(apiquery.ParamContinue))
	if wrong != nil {
		return nil, wrong
	}
	at, items := s.source.Gangs()
	namespaces := map[string]bool{}
	for i := range items {
		namespaces[items[i].Namespace] = true
	}
	prefetch(c, maps.Keys(namespaces))
	out := apiquery.Gangs{At: at, Items: []apiquery.Gang{}}
	if name != "" {
		if !c.MayListPods(namespace) {
			return out, nil
		}
		for _, g := range s.source.Members(apiquery.GangRef{Namespace: namespace, Name: name}) {
			out.Items = append(out.Items, filterGang(withPosition(g, items), c))
		}
		return out, nil
	}
	first := from.in(items, c)
	for i := range items {
		g := &items[i]
		if !c.MayListPods(g.Namespace) {
			// Counted without regard to names: else who knows one could count another's.
			if phase == "" || phase == g.Phase {
				if out.Hidden == nil {
					out.Hidden = map[string]int{}
				}
				out.Hidden[g.Phase]++
			}
			continue
		}
		if i < first || out.Continue != "" || phase != "" && phase != g.Phase || queue != "" && queue != g.Queue || namespace != "" && namespace != g.Namespace {
			continue
		}
		if uint64(len(out.Items)) == limit {
			out.Continue = placeOf(items, &out.Items[len(out.Items)-1])
			continue
		}
		out.Items = append(out.Items, filterGang(*g, c))
	}
	return out, nil
}

// withPosition takes over the position that the list of all gangs gives a gang.
func withPosition(g apiquery.Gang, items []apiquery.Gang) apiquery.Gang {
	for i := range items {
		if o := &items[i]; o.GangRef == g.GangRef && o.Kind == g.Kind && o.Submitted.Equal(g.Submitted) && g.Phase == apiquery.PhaseWaiting {
			g.Position = o.Position
			break
		}
	}
	return g
}

// place is where a page ended: at a gang, which was at an index of the list.
type place struct {
	index int
	gang  string
}

// placeOf is the place of a gang in the list, as a caller gives it back.
func placeOf(items []apiquery.Gang, last *apiquery.Gang) string {
	i := slices.IndexFunc(items, func(g apiquery.Gang) bool {
		return g.GangRef == last.GangRef && g.Kind == last.Kind && g.Submitted.Equal(last.Submitted)
	})
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s/%s", i, last.Namespace, last.Name))
}

// readPlace is the reverse of placeOf; empty: the list's beginning.
func readPlace(text string) (place, *apiquery.Error) {
	if text == "" {
		return place{index: -1}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	number, gang, ok := strings.Cut(string(raw), " ")
	index, bad := strconv.Atoi(number)
	if err != nil || !ok || bad != nil || index < 0 {
		return place{}, Invalid(apiquery.ParamContinue, "is not what an answer gave")
	}
	return place{index, gang}, nil
}

// in is from where on a page goes on: behind the gang, wherever it is now, or where it was
// when it is gone. A list changes between pages: what started or came meanwhile may be
// missing. A gang that the caller may not see is as one that is gone: who makes up a token
// does not learn by it whether there is a gang of a name.
func (p place) in(items []apiquery.Gang, c Caller) int {
	if namespace, _, _ := strings.Cut(p.gang, "/"); p.gang != "" {
		for i := range items {
			if items[i].Namespace == namespace && items[i].Namespace+"/"+items[i].Name == p.gang && c.MayListPods(namespace) {
				return i + 1
			}
		}
		return p.index // it is gone, and who was behind it is in its place
	}
	return p.index + 1
}

// timeline answers with what was decided lately.
func (s *Server) timeline(_ context.Context, c Caller, r *Request) (any, *apiquery.Error) {
	since, wrong := r.Uint(apiquery.ParamSince, 0, math.MaxUint64)
	if wrong != nil {
		return nil, wrong
	}
	limit, wrong := r.Uint(apiquery.ParamLimit, 0, apiquery.MaxLimit)
	if wrong != nil {
		return nil, wrong
	}
	return latest(filterTimeline(s.source.Timeline(since), c), int(limit), since > 0), nil
}
