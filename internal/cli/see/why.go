package see

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/terminal"
)

func newWhy(c Config) *cobra.Command {
	var a *asking
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "why POD|JOB|GANG",
		Short: "Say why something waits, what would help, and when it starts",
		Long: `Say why a pod, a job or a gang waits, with the numbers; what would help, and who can do
it; where it stands in the queue; and when it is expected to start.

The object is NAME, KIND/NAME or KIND NAME; without a kind a pod of that name goes first.
Of what you may not list (other tenants' pods) you see sums, and no names.

With --dump the answer comes from a file of tangram dump, without a cluster.`,
		Example: `  tangram why too-large -n ml-team
  tangram why job/train
  tangram why raycluster/search -n research -o wide
  tangram why train --exit-code > /dev/null || echo "does not run yet"
  tangram why train --dump cluster.dump`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.object(args)
			if err != nil {
				return err
			}
			v, err := showAndRead(cmd, a, ask.WhyQuestion(o), a.printWhy)
			switch {
			case err != nil:
				return err
			case !v.Found:
				return answered(ExitNotFound)
			case exitCode:
				return startCode(v.Gang.Phase, v.Start)
			}
			return nil
		},
	}
	a = newAsking(c, cmd).addFormat(cmd)
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 10 when it waits, 11 when it will not start as things are")
	a.addDump(cmd)
	cmd.ValidArgsFunction = a.completeObjects
	return cmd
}

// startCode is the exit code of --exit-code.
func startCode(phase string, start query.Start) error {
	switch {
	case phase == query.PhaseRunning || phase == query.PhaseStarting || phase == query.PhasePartial || start.Known == query.StartsNow:
		return nil
	case start.Known == query.StartsNever:
		return answered(ExitNever)
	}
	return answered(ExitWaits)
}

// label is the width of the names beside a why's text.
const label = 10

func (a *asking) printWhy(s *terminal.Screen, w *query.Why) {
	g := &w.Gang
	if !w.Found {
		s.Field("Answer", label, terminal.Warn, w.Text)
		printHelps(s, w.Helps)
		asOf(s, w.At)
		return
	}
	printGang(s, g)
	s.Field("Answer", label, terminal.Plain, w.Text)
	if w.Reason.Code != "" {
		s.Field("Reason", label, terminal.Dim, w.Reason.Code+" ("+w.Reason.Class+")")
	}
	printCauses(s, "Nodes", w.Reason.Nodes)
	if g.Phase != query.PhaseRunning {
		s.Field("Starts", label, startStyle(w.Start), startText(w.Start, s))
	}
	if len(w.Start.Nodes) > 0 {
		s.Field("On", label, terminal.Plain, some(w.Start.Nodes, 8))
	}
	if ahead := gangNames(w.Ahead, w.AheadHidden); ahead != "" {
		s.Field("Ahead", label, terminal.Plain, ahead)
	}
	if w.Queue != nil {
		s.Field("Queue", label, terminal.Plain, queueText(w.Queue))
	}
	printHelps(s, w.Helps)
	if a.wide() && len(g.Members) > 0 {
		s.Blank()
		printMembers(s, g.Members)
	}
	asOf(s, w.At)
}

// printGang is the first line: what it is, and what it does.
func printGang(s *terminal.Screen, g *query.Gang) {
	kind := g.Kind
	if g.Owner != "" && g.Owner != g.Name {
		kind += " " + g.Owner
	}
	text := fmt.Sprintf("%s (%s, queue %s, priority %d, %s)", gangName(g.GangRef), kind, or(g.Queue), g.Priority, gpus(g.Milli))
	s.Line(terminal.Bold, "%s", text)
	state := g.Phase
	if g.Phase == query.PhaseWaiting && !g.Submitted.IsZero() {
		state += " for " + span(s.Now().Sub(g.Submitted))
	}
	if g.Position > 0 {
		state += fmt.Sprintf(", number %d of all that wait", g.Position)
	}
	if g.Need > 1 || g.Exist > 1 {
		state += fmt.Sprintf("; %d of %d pods have a place, %d must run", g.Placed, g.Exist, g.Need)
	}
	s.Field("State", label, styles[g.Phase], state)
}

// printCauses lists why nodes cannot take it; each text begins with how many there are.
func printCauses(s *terminal.Screen, name string, causes []query.NodesCause) {
	for _, c := range causes {
		text := c.Text
		if more := c.Nodes - len(c.Examples); len(c.Examples) > 0 {
			text += " (" + strings.Join(c.Examples, ", ")
			if more > 0 {
				text += fmt.Sprintf(" and %d more", more)
			}
			text += ")"
		}
		s.Field(name, label, terminal.Plain, text)
		name = ""
	}
}

func startStyle(st query.Start) terminal.Style {
	switch st.Known {
	case query.StartsNow:
		return terminal.Good
	case query.StartsNever:
		return terminal.Bad
	case query.StartsReserved, query.StartsForecast:
		return terminal.Blue
	}
	return terminal.Warn
}

// startText is when it starts, in words.
func startText(st query.Start, s *terminal.Screen) string {
	text := st.Known
	switch {
	case st.At != nil && st.Known == query.StartsReserved:
		text = moment(*st.At, s.Now()) + ", nodes are kept for it"
	case st.At != nil:
		text = moment(*st.At, s.Now())
	case st.Known == query.StartsNever:
		text = "never, as things are"
	case st.Known == query.StartsUnknown:
		text = "not known"
	}
	if st.Because != "" {
		text += ": " + st.Because
	}
	return text
}

func queueText(q *query.Queue) string {
	text := fmt.Sprintf("%s: %s used, %s entitled", q.Name, gpus(q.GPUs.Used), thousandths(q.GPUs.Entitled))
	if q.GPUs.Guarantee != nil {
		text += ", guarantee " + thousandths(*q.GPUs.Guarantee)
	}
	if q.GPUs.Capability != nil {
		text += ", at most " + thousandths(*q.GPUs.Capability)
	}
	return text + fmt.Sprintf("; %d run, %d wait", q.Running, q.Waiting)
}

func printHelps(s *terminal.Screen, helps []query.Help) {
	if len(helps) == 0 {
		return
	}
	s.Blank()
	s.Line(terminal.Bold, "What would help")
	const who = 18
	for _, h := range helps {
		s.Field("  "+h.Who, who, terminal.Plain, h.Text)
		if h.Command != "" {
			s.Field("", who, terminal.Blue, "$ "+h.Command)
		}
	}
}

func printMembers(s *terminal.Screen, members []query.Member) {
	t := terminal.NewTable("POD", "ROLE", "STATE", "ASKS FOR", "NODE", "DEVICES")
	t.Optional("ROLE", "ASKS FOR")
	for _, m := range members {
		role := m.Role
		if m.Subgroup != "" {
			role = m.Subgroup + "/" + role
		}
		var asks []string
		for _, x := range m.Asks {
			asks = append(asks, x.Amount+" "+x.Resource)
		}
		t.Add(m.Pod.Name, or(role), or(m.State), or(strings.Join(asks, ", ")), or(m.Node), parts(m.Devices))
	}
	t.Write(s)
}
