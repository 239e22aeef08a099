package stories

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
)

// why GANG...: why they wait, and when they are expected to start.
func why(w *world) string {
	var out []string
	for _, name := range w.words() {
		w.gang(name)
		r := w.e.Reasons.Why(engine.ID(name))
		text := r.String()
		if !r.Is() {
			text = "has all that it needs"
		}
		out = append(out, name+" "+text+"\n")
	}
	return lines(out...)
}

// held [NODE...]: which holder has which devices.
func held(w *world) string {
	names := w.words()
	if len(names) == 0 {
		for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
			names = append(names, string(id))
		}
	}
	var out []string
	for _, name := range names {
		out = append(out, name+":")
		for _, h := range w.e.Nodes.HoldersOn(model.NodeID(name)) {
			_, set := w.l.Held(h)
			out = append(out, fmt.Sprintf(" %s%v", h, slices.Collect(set.Slots())))
		}
		out = append(out, "\n")
	}
	return lines(out...)
}

// order: the gangs that wait, in the order in which they are offered a start.
func order(w *world) string {
	var out []string
	for _, turn := range w.e.Gangs.Turns(1000) {
		out = append(out, string(turn.ID))
	}
	return strings.Join(out, " ") + "\n"
}

// kept: the nodes that are kept for gangs.
func kept(w *world) string {
	var out []string
	for _, id := range w.e.Gangs.ReservedFor() {
		at, nodes, _ := w.e.Gangs.Reservation(id)
		from := "not known when"
		if at > 0 {
			from = time.Duration(at).String()
		}
		out = append(out, fmt.Sprintf("%s: %v from %s\n", id, nodes, from))
	}
	return lines(out...)
}

// account QUEUE... [models]: what queues are entitled to, what their jobs are charged and want, of
// GPUs and of their models, and for how long they are owed a GPU.
func account(w *world) string {
	var out []string
	for _, name := range w.words() {
		if name == "models" {
			continue
		}
		found := false
		for _, a := range w.e.Queues.Accounts() {
			if a.Queue != name {
				continue
			}
			found = true
			for _, l := range a.Lines {
				if l.Resource != engine.GPU(model.NVIDIA) && (!w.has("models") || l.Resource == engine.CPU || l.Resource == engine.Memory) {
					continue
				}
				gpus := func(n int64) float64 { return float64(n) / model.FullMilli }
				out = append(out, fmt.Sprintf("%s: %s share %g, used %g, wanted %g", name, l.Resource, gpus(l.Share), gpus(l.Used), gpus(l.Wanted)))
				if l.Owed != 0 {
					out = append(out, fmt.Sprintf(", owed %s", time.Duration(l.Owed/model.FullMilli)*time.Millisecond))
				}
				out = append(out, "\n")
			}
		}
		if !found {
			out = append(out, name+": no such queue\n")
		}
	}
	return lines(out...)
}
