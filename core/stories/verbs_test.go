package stories

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// verbs are what a story can say. Each prints what came of it. A function, since some of them
// refer to the table.
func verbs() map[string]func(*world) string {
	return map[string]func(*world) string{
		"options": options, "nodes": nodes, "lose": lose, "cordon": cordon, "uncordon": cordon, "taint": taint, "apart": apart,
		"measure": measure,
		"queue":   queue, "quota": quota, "gang": gang, "pod": gang, "pods": pods, "add": add, "withdraw": withdraw,
		"step": step, "end": end, "succeed": succeed, "leave": leave, "budget": budget, "spare": spare,
		"refuse": refuse, "accept": accept, "fail": fail, "reserve": reserve, "bind": bind, "outside": outside,
		"suspend": suspend, "resume": resume, "restart": restart,
		"why": why, "held": held, "order": order, "kept": kept, "account": account,
	}
}

// options [releases] [preempt=no] [backfill=no] [reservations=N] [patience=D] [reclaim-after=D]
// [weights=(OBJECTIVE:N,...)]: how the engine decides, from an empty world on. With releases a start is carried out member by
// member (reserve, bind, fail); without, at once.
func options(w *world) string {
	w.o, w.now, w.facts = engine.DefaultOptions(), 0, newFacts()
	if w.has("releases") {
		w.o.BatchTimeout = 2 * time.Minute
	}
	w.o.Preempt, w.o.Backfill = w.value("preempt", "yes") == "yes", w.value("backfill", "yes") == "yes"
	w.o.Reservations = w.number("reservations", w.o.Reservations)
	w.o.Patience = w.duration("patience", w.o.Patience)
	w.o.Weights = w.weights()
	w.o.Timing.ReclaimAfter = w.duration("reclaim-after", w.o.Timing.ReclaimAfter)
	w.reset()
	return ""
}

// lose NODE...: nodes that are gone.
func lose(w *world) string {
	var out []string
	for _, name := range w.words() {
		delete(w.nodes, model.NodeID(name))
		out = append(out, w.apply(engine.NodeGone{Node: model.NodeID(name)}))
	}
	return lines(append(out, w.apply(engine.FleetCounted{}))...)
}

// cordon NODE..., uncordon NODE...
func cordon(w *world) string {
	var out []string
	for _, name := range w.words() {
		w.facts.cordoned[model.NodeID(name)] = w.d.Cmd == "cordon"
		out = append(out, w.apply(engine.NodeRulesChanged{Node: model.NodeID(name)}))
	}
	return lines(out...)
}

// taint NODE... [with=TAINT]: without a taint, what the node had is gone.
func taint(w *world) string {
	var out []string
	for _, name := range w.words() {
		w.facts.tainted[model.NodeID(name)] = w.value("with", "")
		out = append(out, w.apply(engine.NodeRulesChanged{Node: model.NodeID(name)}))
	}
	return lines(out...)
}

// apart GANG GANG [because=WORDS]: their members may not share a node; of gangs that were told
// with keeps-apart.
func apart(w *world) string {
	names := w.words()
	a, b := w.gang(names[0]).Roles[0].Shape, w.gang(names[1]).Roles[0].Shape
	why := w.value("because", "anti-affinity")
	w.facts.apart[[2]model.Shape{a, b}], w.facts.apart[[2]model.Shape{b, a}] = why, why
	return w.apply(engine.RulesChanged{})
}

// gang NAME [members=M] [gpus=K] [min=N] [role=(NAME,MEMBERS,GPUS,MIN,CORES)]... [cpu=CORES] [model=M]
// [queue=] [priority=] [ns=] [user=] [runtime=D] [min-runtime=D] [level=rack|zone|node]
// [preemptible=no] [never-preempts] [keeps-apart] [per-node=N] [invalid=WORDS]
// [subgroup=(NAME,MEMBERS,GPUS,MIN,LEVEL)]... [min-groups=N] [from=N], and what request takes: a
// gang comes or changes;
// "pod" is a gang of one. Members are numbered from 0, or from what from= says.
func gang(w *world) string {
	name := w.words()[0]
	g := &engine.Gang{
		ID: engine.ID(name), Name: w.value("ns", "default") + "/" + name, Namespace: w.value("ns", "default"), User: w.value("user", ""),
		Queue: w.value("queue", ""), Priority: int32(w.number("priority", 0)), Submitted: w.now, Preemptible: w.value("preemptible", "yes") == "yes",
		Runtime: w.duration("runtime", 0), MinRuntime: w.duration("min-runtime", 0), NeverPreempts: w.has("never-preempts"),
		Invalid: w.value("invalid", ""), Require: w.level(w.value("level", "")), MinGroups: w.number("min-groups", 0),
	}
	if old := w.gangs[g.ID]; old != nil {
		g.Submitted = old.Submitted
	}
	next := w.number("from", 0)
	role := func(role, subgroup string, members, gpus, min, cores int) {
		r := engine.Role{Name: role, Subgroup: subgroup, Request: w.request(gpus, cores), Min: min, KeepsApart: w.has("keeps-apart"), MaxPerNode: w.number("per-node", 0)}
		if r.KeepsApart || r.MaxPerNode > 0 {
			r.Shape = model.Shape(name + "/" + role)
		}
		for range members {
			r.Members = append(r.Members, model.HolderID(fmt.Sprintf("%s/%d", name, next)))
			next++
		}
		g.Roles = append(g.Roles, r)
	}
	w.read["role"], w.read["subgroup"] = true, true
	for _, a := range w.d.CmdArgs {
		v := append(slices.Clone(a.Vals), "", "", "", "", "")
		number := func(i int) int { n, _ := strconv.Atoi(v[i]); return n }
		switch a.Key {
		case "role":
			role(v[0], "", number(1), number(2), number(3), number(4))
		case "subgroup":
			g.Subgroups = append(g.Subgroups, engine.Subgroup{Name: v[0], Min: number(3), Require: w.level(v[4])})
			role(v[0], v[0], number(1), number(2), 0, 0)
		}
	}
	if len(g.Roles) == 0 {
		members := w.number("members", 1)
		role("", "", members, w.number("gpus", 1), 0, 0)
		g.Min = members
	}
	sum := 0
	for _, r := range g.Roles {
		sum += r.Min
	}
	if len(g.Subgroups) == 0 {
		g.Min = max(w.number("min", max(g.Min, sum)), 1)
	}
	w.gangs[g.ID] = g
	var events []engine.Event
	for _, r := range g.Roles {
		for range r.Members {
			events = append(events, engine.Arrived{Request: r.Request})
		}
	}
	return w.apply(append(events, engine.Submitted{Gang: *g})...)
}

// pods NAME count=N ...: N gangs of one, NAME-0 and so on, with what gang takes.
func pods(w *world) string {
	var out []string
	name := w.words()[0]
	for i := range w.number("count", 1) {
		w.d.CmdArgs[0].Key = fmt.Sprintf("%s-%d", name, i)
		out = append(out, gang(w))
	}
	return lines(out...)
}

// add GANG/MEMBER...: members come to the last role of their gang.
func add(w *world) string {
	var out []string
	for _, name := range w.words() {
		id, _, _ := strings.Cut(name, "/")
		g := w.gang(id)
		changed := *g
		changed.Roles = slices.Clone(g.Roles)
		last := &changed.Roles[len(changed.Roles)-1]
		last.Members = append(slices.Clone(last.Members), model.HolderID(name))
		w.gangs[g.ID] = &changed
		out = append(out, w.apply(engine.Arrived{Request: last.Request}, engine.Submitted{Gang: changed}))
	}
	return lines(out...)
}

// withdraw GANG...: gangs go, with all that they hold.
func withdraw(w *world) string {
	var out []string
	for _, name := range w.words() {
		out = append(out, w.apply(engine.Ended{Holders: w.members(name)}, engine.Withdrawn{Gang: engine.ID(name)}))
		delete(w.gangs, engine.ID(name))
	}
	return lines(out...)
}

// step [+DURATION]: time passes, and a decision is made. Without releases starts are carried out
// at once: the members are bound.
func step(w *world) string {
	for _, word := range w.words() {
		d, err := time.ParseDuration(strings.TrimPrefix(word, "+"))
		if err != nil {
			w.d.Fatalf(w.t, "%v", err)
		}
		w.now += int64(d)
	}
	plan := w.e.Step(w.now)
	w.follow(&plan.Effects)
	out := plan.String()
	if w.o.BatchTimeout == 0 {
		for _, s := range plan.Starts {
			for _, p := range s.Plan.Placements {
				out += w.confirm(p.Holder)
			}
		}
	}
	if out == "" {
		return "nothing to do\n"
	}
	return out
}

// confirm tells that a member is bound.
func (w *world) confirm(h model.HolderID) string {
	node, c, held := w.l.Claim(h)
	if !held {
		w.d.Fatalf(w.t, "%s has no place", h)
	}
	c.Assumed, c.Since = false, w.now/int64(time.Second)
	delete(w.released, h)
	return w.apply(engine.Bound{Node: node, Holders: []model.HolderID{h}, Claims: []ledger.Claim{c}})
}

// end GANG|GANG/MEMBER...: pods end; their members are gone.
func end(w *world) string {
	var out []string
	for _, h := range w.members(w.words()...) {
		out = append(out, w.apply(engine.Ended{Holders: []model.HolderID{h}}))
		if _, left := w.leaving[h]; !left {
			out = append(out, w.drop(h))
			continue
		}
		out = append(out, w.apply(engine.Withdrawn{Gang: alone(h)}))
		delete(w.leaving, h)
		delete(w.gangs, alone(h))
	}
	return lines(out...)
}

// alone names the gang of a member that is leaving.
func alone(h model.HolderID) engine.ID { return engine.ID(h + " leaving") }

// succeed GANG/MEMBER...: pods end that have done their work; their gang needs one less each.
func succeed(w *world) string {
	var out []string
	for _, h := range w.members(w.words()...) {
		id, _, _ := strings.Cut(string(h), "/")
		changed := *w.gang(id)
		changed.Min--
		w.gangs[changed.ID] = &changed
		out = append(out, w.apply(engine.Ended{Holders: []model.HolderID{h}}), w.drop(h))
	}
	return lines(out...)
}

// drop takes a member out of its gang.
func (w *world) drop(h model.HolderID) string {
	id, _, _ := strings.Cut(string(h), "/")
	g := w.gang(id)
	changed := *g
	changed.Roles = slices.Clone(g.Roles)
	left := 0
	for i := range changed.Roles {
		r := &changed.Roles[i]
		r.Members = slices.DeleteFunc(slices.Clone(r.Members), func(o model.HolderID) bool { return o == h })
		left += len(r.Members)
	}
	if left == 0 {
		delete(w.gangs, g.ID)
		return w.apply(engine.Withdrawn{Gang: g.ID})
	}
	w.gangs[g.ID] = &changed
	return w.apply(engine.Submitted{Gang: changed})
}

// leave GANG/MEMBER... [within=D]: pods terminate; each stands alone until it is gone.
func leave(w *world) string {
	var out []string
	for _, h := range w.members(w.words()...) {
		id, _, _ := strings.Cut(string(h), "/")
		old := *w.gang(id)
		role := old.Roles[0]
		out = append(out, w.drop(h))
		role.Members, role.Min, role.Subgroup = []model.HolderID{h}, 0, ""
		left := engine.Gang{ID: alone(h), Name: string(h), Namespace: old.Namespace, Queue: old.Queue, Priority: old.Priority, Submitted: old.Submitted, Preemptible: old.Preemptible, Min: 1, Roles: []engine.Role{role}}
		w.gangs[left.ID], w.leaving[h] = &left, w.now+int64(w.duration("within", 30*time.Second))
		out = append(out, w.apply(engine.Submitted{Gang: left}, engine.Leaving{Holder: h, Until: w.leaving[h]}))
	}
	return lines(out...)
}

// budget NAME allows=N GANG|GANG/MEMBER...: a disruption budget of members.
func budget(w *world) string {
	words := w.words()
	w.facts.budgets[words[0]] = w.number("allows", 0)
	for _, h := range w.members(words[1:]...) {
		w.facts.covers[h] = words[0]
	}
	return w.apply(engine.RulesChanged{})
}

// spare GANG/MEMBER...: the API server refuses to evict them.
func spare(w *world) string {
	var out []string
	for _, h := range w.members(w.words()...) {
		out = append(out, w.apply(engine.EvictionRefused{Holder: h}))
	}
	return lines(out...)
}

// restart: a new engine is told what the API knows: nodes, queues, bound pods and gangs.
func restart(w *world) string {
	old, gangs, nodes, queues, quotas, leaving := w.l, w.gangs, w.nodes, w.queues, w.quotas, w.leaving
	learned := w.e.Save()
	w.reset()
	w.gangs, w.nodes, w.queues, w.quotas, w.leaving = gangs, nodes, queues, quotas, leaving
	out := []string{w.setQueues(), w.setQuotas()}
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		out = append(out, w.apply(engine.NodeSet{Node: nodes[id]}))
	}
	out = append(out, w.apply(engine.FleetCounted{}))
	for _, id := range slices.Sorted(maps.Keys(gangs)) {
		out = append(out, w.apply(engine.Submitted{Gang: *gangs[id]}))
		for _, r := range gangs[id].Roles {
			for _, h := range r.Members {
				if node, c, held := old.Claim(h); held && !c.Assumed {
					c.Standing = ledger.Standing{}
					out = append(out, w.apply(engine.Bound{Node: node, Holders: []model.HolderID{h}, Claims: []ledger.Claim{c}}))
				}
				if until, left := leaving[h]; left {
					out = append(out, w.apply(engine.Leaving{Holder: h, Until: until}))
				}
			}
		}
	}
	return lines(append(out, w.apply(engine.Restored{Learned: learned}))...)
}
