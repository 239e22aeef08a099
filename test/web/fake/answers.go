package fake

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/internal/kube/answer"
)

// Tokens that the fake knows: one that sees all, one that may list pods of one namespace
// and no nodes.
const (
	Admin  = "admin-token"
	Tenant = "tenant-token" // research
	tenant = "research"
)

// Handler answers like the leader. With open no token is needed, as behind `tangram web`.
func (f *Fleet) Handler(open bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !open && token != Admin && token != Tenant {
			refuse(w, query.Error{Status: 401, Reason: "Unauthorized", Message: "the API server does not know this token"})
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		key := r.URL.Path
		if r.URL.Query().Has(query.ParamSince) {
			key += "?since"
		}
		f.asks[key]++
		if f.down != 0 {
			refuse(w, query.Error{Status: f.down, Reason: "NotLeader", Message: "no scheduler leads"})
			return
		}
		answer, problem := f.answer(r, token == Tenant)
		if problem != nil {
			refuse(w, *problem)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		var out io.Writer = w
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
			defer z.Close()
			out = z
		}
		json.NewEncoder(out).Encode(answer)
	})
}

func refuse(w http.ResponseWriter, e query.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	json.NewEncoder(w).Encode(e)
}

func (f *Fleet) answer(r *http.Request, limited bool) (any, *query.Error) {
	q := r.URL.Query()
	since, _ := strconv.ParseUint(q.Get(query.ParamSince), 10, 64)
	ref := query.GangRef{Namespace: q.Get(query.ParamNamespace), Name: q.Get(query.ParamName)}
	switch r.URL.Path {
	case query.PathFleet:
		return f.fleet(), nil
	case query.PathNodes:
		return f.listNodes(since, limited), nil
	case query.PathQueues:
		return f.queues(limited), nil
	case query.PathHistory:
		return f.history(), nil
	case query.PathGangs:
		return f.listGangs(q.Get(query.ParamPhase), ref.Namespace, q.Get(query.ParamQueue), limited), nil
	case query.PathWhy:
		return f.why(ref, limited)
	case query.PathTimeline:
		return f.timeline(since, limited), nil
	case query.PathExplain:
		return query.Explain{At: time.Now(), Pod: query.PodRef{Namespace: ref.Namespace, Name: ref.Name}, Node: "node-0001", Total: 81,
			Terms: []query.Term{{Name: "fragmentation", Score: 90, Weight: 3}, {Name: "topology", Score: 60, Weight: 1}}, RunnersUp: []query.RunnerUp{{Node: "node-0002", Total: 70}}}, nil
	case query.PathWhatIf:
		return f.whatIf(r)
	}
	return nil, &query.Error{Status: 404, Reason: "NotFound", Message: "there is no such question"}
}

func (f *Fleet) fleet() query.Fleet {
	out := query.Fleet{At: time.Now(), Scheduler: query.Scheduler{Holder: "kube-system/gpu-scheduler-0", Version: "test"}, Fragmentation: 0.037}
	models := map[string]*query.Model{}
	for _, n := range f.nodes {
		out.Nodes.Total++
		switch n.State {
		case "ready":
			out.Nodes.Ready++
		case "cordoned":
			out.Nodes.Cordoned++
		default:
			out.Nodes.Lost++
		}
		for _, d := range n.Devices {
			m := models[d.Model]
			if m == nil {
				m = &query.Model{Vendor: d.Vendor, Model: d.Model, ByState: map[string]int64{}}
				models[d.Model] = m
			}
			m.Milli += 1000
			if d.State == "allocated" {
				m.ByState["allocated"] += d.HeldMilli
				m.ByState["free"] += 1000 - d.HeldMilli
			} else {
				m.ByState[d.State] += 1000
			}
		}
	}
	for _, m := range models {
		out.Models = append(out.Models, *m)
	}
	slices.SortFunc(out.Models, func(a, b query.Model) int { return strings.Compare(a.Model, b.Model) })
	for _, g := range f.gangs {
		if g.Phase == query.PhaseWaiting {
			out.Work.WaitingGangs++
			out.Work.WaitingPods += g.Exist
			out.Work.OldestSeconds = max(out.Work.OldestSeconds, int64(time.Since(g.Submitted).Seconds()))
		} else {
			out.Work.RunningGangs++
			out.Work.RunningPods += g.Exist
		}
	}
	return out
}

func (f *Fleet) listNodes(since uint64, limited bool) query.Nodes {
	out := query.Nodes{At: time.Now(), Version: f.version, Levels: []string{"block", "rack"}, Items: []query.Node{}}
	if limited {
		out.Hidden = len(f.nodes)
		return out
	}
	out.Partial = since > 0
	for _, n := range f.nodes {
		if f.changed[n.Name] > since {
			out.Items = append(out.Items, n)
		}
	}
	return out
}

func (f *Fleet) queues(limited bool) query.Queues {
	limit := int64(6_000_000)
	out := query.Queues{At: time.Now()}
	for i, name := range []string{"root", "research", "vision", "speech", "batch", "production"} {
		if limited && name != "root" && name != tenant {
			out.Hidden++
			continue
		}
		q := query.Queue{Name: name, Parent: "root", Weight: int64(i + 1), State: "Open", Balance: float64(i*90_000 - 200_000), Running: 100 + i, Waiting: i * 4,
			GPUs: query.QueueResource{Resource: "gpus", Entitled: int64(i) * 500_000, Used: int64(i) * 430_000, Wanted: int64(i) * 700_000}}
		if name == "root" {
			q.Parent, q.GPUs.Entitled, q.GPUs.Used = "", 8_000_000, 6_400_000
		}
		if name == "batch" {
			q.GPUs.Used = 2_300_000
			q.GPUs.Capability = &limit
		}
		out.Items = append(out.Items, q)
	}
	return out
}

func (f *Fleet) history() query.History {
	out := query.History{EverySeconds: 15}
	for i, name := range []string{"research", "vision", "speech", "batch", "production"} {
		s := query.QueueSeries{Queue: name}
		for n := range 240 {
			if n > 90 && n < 100 {
				continue // no leader
			}
			s.At = append(s.At, f.start.Add(time.Duration(n)*15*time.Second))
			s.Entitled = append(s.Entitled, int64(i+1)*500_000)
			s.Used = append(s.Used, int64(i+1)*(300_000+int64((n*n)%170)*1000))
			s.Wanted = append(s.Wanted, int64(i+1)*650_000)
		}
		out.Queues = append(out.Queues, s)
	}
	return out
}

func (f *Fleet) listGangs(phase, namespace, queue string, limited bool) query.Gangs {
	out := query.Gangs{At: time.Now(), Items: []query.Gang{}, Hidden: map[string]int{}}
	for _, g := range f.gangs {
		switch {
		case phase != "" && g.Phase != phase || namespace != "" && g.Namespace != namespace || queue != "" && g.Queue != queue:
		case limited && g.Namespace != tenant:
			out.Hidden[g.Phase]++
		default:
			g.Members = nil
			out.Items = append(out.Items, g)
		}
	}
	return out
}

func (f *Fleet) why(ref query.GangRef, limited bool) (any, *query.Error) {
	out := query.Why{At: time.Now()}
	for _, g := range f.gangs {
		if limited && g.Namespace != tenant {
			if g.Phase == query.PhaseWaiting && len(out.Ahead) == 0 {
				out.AheadHidden++
			}
			continue
		}
		if g.GangRef == ref {
			out.Gang, out.Found = g, true
			break
		}
		if g.Phase == query.PhaseWaiting && len(out.Ahead) < 5 {
			out.Ahead = append(out.Ahead, g.GangRef)
		}
	}
	if limited && ref.Namespace != tenant {
		return nil, &query.Error{Status: 403, Reason: "Forbidden", Message: "you may not list pods of namespace " + ref.Namespace}
	}
	if !out.Found {
		out.Text = "There is no pod or gang of this name."
		out.Gang.GangRef = ref
		return out, nil
	}
	q := f.queues(false).Items[1]
	out.Queue = &q
	if out.Gang.Phase == query.PhaseRunning {
		out.Text, out.Start = "It runs.", query.Start{Known: query.StartsNow}
		return out, nil
	}
	out.Reason, out.Text = *out.Gang.Reason, ref.Namespace+"/"+ref.Name+": "+out.Gang.Reason.Text+"."
	at := time.Now().Add(13 * time.Minute)
	out.Start = query.Start{Known: query.StartsReserved, At: &at, Because: "what runs on the nodes that are kept for it is expected to end by then", Nodes: []string{"node-0003", "node-0004"}}
	out.Helps = answer.HelpAnswers(&explain.Case{Reason: f.reason(), Namespace: ref.Namespace, Object: "job/" + out.Gang.Owner, Size: members, Queue: out.Gang.Queue, Declared: true, NextEnd: 13 * time.Minute,
		Examples: func(l explain.Line) (names []string) {
			for _, id := range l.Examples() {
				names = append(names, string(id))
			}
			return names
		}})
	return out, nil
}

func (f *Fleet) timeline(since uint64, limited bool) query.Timeline {
	out := query.Timeline{Version: uint64(len(f.events)), Items: []query.Event{}}
	for _, e := range f.events[max(0, len(f.events)-300):] {
		switch {
		case e.Version <= since:
		case limited && e.Gang.Namespace != tenant:
			out.Hidden++
		default:
			out.Items = append(out.Items, e)
		}
	}
	return out
}

func (f *Fleet) whatIf(r *http.Request) (any, *query.Error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, query.MaxBody))
	if err != nil || !strings.Contains(string(body), "kind:") {
		return nil, &query.Error{Status: 400, Reason: "Invalid", Message: "the manifest has no object with a kind", Field: "body"}
	}
	o := query.Outcome{
		Gang:  query.Gang{GangRef: query.GangRef{Namespace: "research", Name: "trial"}, Queue: "research", Milli: 4000},
		Start: query.Start{Known: query.StartsNow}, Displaces: []query.GangRef{{Namespace: "batch", Name: "sweep-1"}}, DisplacesHidden: 1, Delays: []query.Delay{{Gang: query.GangRef{Namespace: "research", Name: "llama"}, Seconds: 600}},
	}
	for d := range 4 {
		o.Members = append(o.Members, query.Member{Pod: query.PodRef{Namespace: "research", Name: "trial-" + strconv.Itoa(d)}, Node: "node-0011", State: "starting", Devices: []query.Part{{Index: d, Milli: 1000}}})
	}
	return query.WhatIf{At: time.Now(), Gangs: []query.Outcome{o}, Assumed: []string{"Job trial: 4 pods were assumed."}, Refused: []query.Refused{{Object: "Pod bad", Field: "spec.containers[0].resources", Message: "fractions of a GPU need nvidia.com/gpu.shared"}}}, nil
}
