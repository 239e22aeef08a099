package stories

import (
	"time"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// refuse GANG/MEMBER NODE|everywhere [because=WORDS]: kube-scheduler's filters refuse a planned
// node, and the member's start is taken back.
func refuse(w *world) string {
	words := w.words()
	h, r := model.HolderID(words[0]), w.release(words[0])
	why := explain.Refusal{Code: explain.Filtered, Detail: w.value("because", "refused")}
	if words[1] == "everywhere" {
		return w.apply(engine.AllNodesRefused{Holder: h, Why: why}, engine.StartFailed{Holder: h, Ticket: r.Ticket, AtFault: true})
	}
	return w.apply(engine.NodeRefused{Holder: h, Node: model.NodeID(words[1]), Why: why}, engine.StartFailed{Holder: h, Ticket: r.Ticket, AtFault: true})
}

// release is a member's release, which must be there.
func (w *world) release(name string) engine.Release {
	r, ok := w.released[model.HolderID(name)]
	if !ok {
		w.d.Fatalf(w.t, "%s has no release", name)
	}
	return r
}

// accept GANG/MEMBER NODE: the filters let a member onto a node, and its cycle chooses it.
func accept(w *world) string {
	words := w.words()
	r := w.release(words[0])
	return w.apply(engine.NodeTook{Holder: r.Holder, Node: model.NodeID(words[1])}, engine.NodeChosen{Holder: r.Holder, Ticket: r.Ticket, Node: model.NodeID(words[1])})
}

// fail GANG/MEMBER [because=WORDS]: a member's cycle or Binding failed for another reason.
func fail(w *world) string {
	r := w.release(w.words()[0])
	return w.apply(engine.StartFailed{Holder: r.Holder, Ticket: r.Ticket, Why: w.value("because", "failed")})
}

// reserve GANG|GANG/MEMBER...: members come to Permit.
func reserve(w *world) string {
	var out []string
	for _, h := range w.members(w.words()...) {
		r := w.release(string(h))
		out = append(out, w.apply(engine.CycleBegan{Holder: h, Ticket: r.Ticket}, engine.MemberReserved{Holder: h, Ticket: r.Ticket}))
	}
	return lines(out...)
}

// bind GANG|GANG/MEMBER...: members are bound, or were by another process.
func bind(w *world) string {
	var out []string
	for _, h := range w.members(w.words()...) {
		out = append(out, w.confirm(h))
	}
	return lines(out...)
}

// outside NAME NODE [gpus=N] [cpu=CORES]: a pod is bound to a node by another scheduler. If the
// story knows a member of that name, it is that one.
func outside(w *world) string {
	words := w.words()
	c := ledger.Claim{Holder: model.HolderID(words[0]), Vendor: model.NVIDIA, Count: w.number("gpus", 0), Since: w.now / int64(time.Second), Host: model.Host{CPU: int64(w.number("cpu", 0)) * 1000}}
	return w.apply(engine.Bound{Node: model.NodeID(words[1]), Holders: []model.HolderID{c.Holder}, Claims: []ledger.Claim{c}})
}

// suspend, resume: the API server cannot, and can again, be written to.
func suspend(w *world) string { return w.apply(engine.Suspended{}) }
func resume(w *world) string  { return w.apply(engine.Resumed{}) }
