package checker

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// How much of the history a breach keeps: events from before it, until after it, and
// how many at most.
const (
	historyBefore = 90 * time.Second
	historyAfter  = 10 * time.Second
	historyLines  = 150
	historyKept   = 50_000
)

// history is the last events, in the order they were seen.
type history struct {
	events []event
	out    io.Writer
}

type event struct {
	time  time.Time
	kind  string
	text  string
	about []string
}

func (e event) String() string {
	return fmt.Sprintf("%s %s %s", e.time.Format("15:04:05.000"), e.kind, e.text)
}

// Log makes every event of the history also a line of out.
func (c *Checker) Log(out io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history.out = out
}

func (h *history) note(now time.Time, kind, text string, about ...string) {
	e := event{now, kind, text, about}
	h.events = append(h.events, e)
	if len(h.events) > historyKept {
		h.events = slices.Clone(h.events[historyKept/2:])
	}
	if h.out != nil {
		fmt.Fprintln(h.out, e, about) // a full disk must not end the run
	}
}

// pod notes what changed about a pod, if it matters.
func (h *history) pod(now time.Time, before *Pod, p Pod, gone bool) {
	say := func(text string) {
		h.note(now, "pod", fmt.Sprintf("%s %s (rv %s)", p.Name, text, p.ResourceVersion), p.Name, p.Unit)
	}
	if before == nil {
		before = &Pod{}
		if p.Hand {
			say("created, to be bound by hand")
		} else {
			say(fmt.Sprintf("created: %s, unit %s, minimum %d, queue %q", p.Ask, p.Unit, p.Minimum, p.Queue))
		}
	}
	if before.Node != p.Node {
		say("bound to " + p.Node + ", record " + p.Record)
	} else if before.Record != p.Record {
		say("record changed to " + p.Record)
	}
	if before.Phase != p.Phase && p.Phase != "Pending" {
		say("is " + string(p.Phase))
	}
	if !before.Terminating && p.Terminating {
		say("is being deleted")
	}
	if gone {
		say("deleted")
	}
}

// complete gives breaches their history once what follows them is known.
func (h *history) complete(now time.Time, breaches []*Breach) {
	for _, b := range breaches {
		if !b.complete && now.Sub(b.Time) > historyAfter {
			h.attach(b)
		}
	}
}

func (h *history) completeAll(breaches []*Breach) {
	for _, b := range breaches {
		if !b.complete {
			h.attach(b)
		}
	}
}

func (h *history) attach(b *Breach) {
	b.complete = true
	var lines []string
	for _, e := range h.events {
		if e.time.Before(b.Time.Add(-historyBefore)) || e.time.After(b.Time.Add(historyAfter)) || !e.concerns(b) {
			continue
		}
		lines = append(lines, e.String())
	}
	b.History = lines[max(0, len(lines)-historyLines):]
}

func (e event) concerns(b *Breach) bool {
	if e.kind == "fault" || e.kind == "scheduler" {
		return true
	}
	return slices.ContainsFunc(e.about, func(name string) bool { return name != "" && slices.Contains(b.Pods, name) })
}
