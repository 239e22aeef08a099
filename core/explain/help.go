package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/core/model"
)

// Actor is the party that can bring about what would help.
type Actor uint8

// Actors.
const (
	// Owner: the user that submitted the pods can change them.
	Owner Actor = iota + 1
	// Administrator: of nodes, queues or quotas.
	Administrator
	// Passage of time: nothing has to be done.
	Passage
)

// String is the actor's stable name.
func (a Actor) String() string {
	if names := [...]string{"unspecified", "owner", "administrator", "time"}; int(a) < len(names) {
		return names[a]
	}
	return "unspecified"
}

// Help is something that would let a gang start, or let it start sooner.
type Help struct {
	Who Actor
	// Text says what, with the numbers of the case.
	Text string
	// Command does it, or shows what to look at; may be empty.
	Command string
}

// Case is a waiting gang with what remedies need to know of it. What the reader may not see
// is left out by the caller: names of nodes (Examples, and those of Reason.Prospect).
type Case struct {
	Reason Reason
	// Namespace is the gang's, Object what its pods are changed through, as kubectl names it
	// ("pod/train-0", "job/train"); Object may be empty.
	Namespace, Object string
	// Size is how many members exist; Fixed: the minimum is not the owner's to lower
	// (a single pod, subgroups, roles with a minimum each).
	Size  int
	Fixed bool
	// Queue is where it waits, Priority its own.
	Queue    string
	Priority int32
	// Declared: it is known how long the gang will run.
	Declared bool
	// Lower is how many running gangs of the same queue could be evicted for it if its
	// priority were above Above.
	Lower int
	Above int32
	// NextEnd is how long it takes until the first running gang is expected to end; 0 when
	// that is not known.
	NextEnd time.Duration
	// Retry is how long a back-off lasts; 0 when there is none.
	Retry time.Duration
	// Idle are claims that are in the way, of a gang that waits for nodes.
	Idle IdleClaims
	// Examples are nodes that refuse for a cause, a few of each.
	Examples func(Line) []string
	// Spell is an amount of a resource as Kubernetes writes it ("nvidia.com/gpu", "8"); empty
	// when it has no name there. nil: none has.
	Spell func(resource string, amount int64) (name, quantity string)
	// Devices says that a resource is a number of devices, or of places on them, which a
	// device plugin offers and kubelet counts; Hardware that a label describes what a node
	// is: given to another node by hand it would be wrong, or be taken back. nil: none.
	Devices, Hardware func(name string) bool
}

// maxHelps bounds how many helps are given: the first ones are the surest.
const maxHelps = 6

// Helps says what would let a gang start or start sooner, the surest first: at least one
// for every reason, none without a reason. What only time brings is left out when the gang
// can never start as things are.
func Helps(c *Case) []Help {
	r := &c.Reason
	if !r.Is() {
		return nil
	}
	var out []Help
	add := func(h Help) {
		if h.Text != "" && !(r.Never && h.Who == Passage) && !slices.ContainsFunc(out, func(o Help) bool { return o.Text == h.Text }) {
			out = append(out, h)
		}
	}
	if h, ok := c.prospect(); ok {
		add(h)
	}
	if r.Asked != "" {
		add(Help{Who: Passage, Text: "An autoscaler was asked for nodes " + r.Asked + ": it starts when they come."})
	}
	for _, h := range c.Idle.helps(c) {
		add(h)
	}
	addFor := func(code Code, l Line) {
		for _, m := range remediesFor(code) {
			if m.say == nil {
				add(Help{Who: m.who, Text: m.what})
			} else if text, command := m.say(c, l); text != "" {
				add(Help{Who: m.who, Text: text, Command: command})
			}
		}
	}
	addFor(r.Code, Line{})
	if r.Code == Nodes || r.Code == NoDomain || r.Code == BackOff {
		for _, l := range r.Nodes.Lines() {
			addFor(l.Code, l)
		}
	}
	if all := remediesFor(r.Code); len(out) == 0 && len(all) > 0 { // nothing about this case in particular
		out = append(out, Help{Who: all[0].who, Text: all[0].what})
	}
	return out[:min(len(out), maxHelps)]
}

// prospect is help from what is under way already.
func (c *Case) prospect() (Help, bool) {
	p := &c.Reason.Prospect
	switch {
	case len(p.Nodes) == 0:
		return Help{}, false
	case p.Freeing:
		return Help{Who: Passage, Text: fmt.Sprintf("Pods are being evicted on %s for it: it starts when they have terminated.", plural(len(p.Nodes), "node"))}, true
	case p.At == 0:
		return Help{Who: Passage, Text: fmt.Sprintf("%s kept for it: it starts when the pods that run there end. Declared runtimes (annotation tangram.dev/runtime) would tell when.", counted(len(p.Nodes), "node", "is", "are"))}, true
	}
	return Help{Who: Passage, Text: fmt.Sprintf("%s kept for it: it is expected to start by %s.", counted(len(p.Nodes), "node", "is", "are"), startBy(p.At))}, true
}

// kubectl is a command on the objects of the gang's namespace.
func (c *Case) kubectl(format string, args ...string) string {
	return command("kubectl -n %s "+format, append([]string{c.Namespace}, args...)...)
}

// command is a command with words put into it; empty when one of them could mean something
// to a shell. Some words are what tenants wrote, and others may run the command.
func command(format string, words ...string) string {
	args := make([]any, len(words))
	for i, w := range words {
		for _, r := range w {
			if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(" ._/-=:,", r)) {
				return ""
			}
		}
		if w == "" || strings.HasPrefix(w, "-") {
			return ""
		}
		args[i] = w
	}
	return fmt.Sprintf(format, args...)
}

// on are some nodes of a line, for a command; NODE where they are not to be named.
func (c *Case) on(l Line) string {
	if c.Examples != nil {
		if names := c.Examples(l); len(names) > 0 {
			return strings.Join(names, " ")
		}
	}
	return "NODE"
}

// onOne is one node of a line, for a command that takes one.
func (c *Case) onOne(l Line) string {
	node, _, _ := strings.Cut(c.on(l), " ")
	return node
}

// spelt is an amount as Kubernetes writes it; false when it has no name there.
func (c *Case) spelt(resource string, amount int64) (name, quantity string, ok bool) {
	if c.Spell == nil {
		return "", "", false
	}
	name, quantity = c.Spell(resource, amount)
	return name, quantity, name != ""
}

// ends says when something is expected to end, to be added to a sentence.
func (c *Case) ends() string {
	if c.NextEnd <= 0 {
		return ""
	}
	return fmt.Sprintf(" The next end that is expected is in %s.", roughly(c.NextEnd))
}

// roughly is a duration in the two largest units that say something.
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d/(24*time.Hour)))
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d/time.Hour), int(d%time.Hour/time.Minute))
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", int(d/time.Minute), int(d%time.Minute/time.Second))
	}
	return fmt.Sprintf("%ds", int((d+time.Second-1)/time.Second))
}

// startBy is the time of a prospect in words. Times are estimates, and each new one is
// written to every pod: minutes will do.
func startBy(at int64) string {
	return time.Unix(0, at).Add(time.Minute).Truncate(time.Minute).UTC().Format("2006-01-02 15:04 MST")
}

// Examples are some of the nodes of a line, sorted; nil when none was named.
func (l Line) Examples() []model.NodeID { return slices.Clone(l.examples) }
