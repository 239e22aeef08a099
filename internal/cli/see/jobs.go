package see

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/terminal"
)

func newJobs(c Config) *cobra.Command {
	var a *asking
	var all bool
	var p ask.GangsParams
	cmd := &cobra.Command{
		Use:     "jobs",
		Aliases: []string{"gangs"},
		Short:   "List what runs and what waits, in the order of starting",
		Long: `List jobs, groups of pods and single pods that the scheduler knows: first what waits, in
the order in which it is to start, with its reason and its expected start; then what runs.`,
		Example: `  tangram jobs
  tangram jobs -A --phase Waiting
  tangram jobs -A --queue research -o wide`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := a.screen(cmd)
			client, err := a.connect()
			if err != nil {
				return err
			}
			if p.Limit < 0 {
				return &ask.UsageError{Message: "--limit: must not be below 0"}
			}
			p := p
			p.Phase = phaseOf(p.Phase)
			if !all {
				p.Namespace = client.Namespace()
			}
			body, err := a.allGangs(cmd.Context(), s, p)
			if err != nil {
				return err
			}
			return print(a, s, body, func(s *terminal.Screen, g *query.Gangs) { a.printJobs(s, g, p, all) })
		},
	}
	a = newAsking(c, cmd).addFormat(cmd)
	f := cmd.Flags()
	f.BoolVarP(&all, "all-namespaces", "A", false, "of all namespaces")
	f.StringVar(&p.Queue, "queue", "", "of this queue alone")
	f.StringVar(&p.Phase, "phase", "", "of this phase alone: Waiting, Starting, Running, Partial")
	f.IntVar(&p.Limit, "limit", 0, "at most so many; 0: all")
	_ = cmd.RegisterFlagCompletionFunc("queue", a.complete(queueNames))
	_ = cmd.RegisterFlagCompletionFunc("phase", cobra.FixedCompletions(phases(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func phases() []string {
	return []string{query.PhaseWaiting, query.PhaseStarting, query.PhaseRunning, query.PhasePartial}
}

// phaseOf accepts a phase in any case; others go on as they are, for the scheduler to
// refuse.
func phaseOf(word string) string {
	for _, p := range phases() {
		if strings.EqualFold(p, word) {
			return p
		}
	}
	return word
}

// allGangs asks page after page, and puts the items of all into the first.
func (a *asking) allGangs(ctx context.Context, s *terminal.Screen, p ask.GangsParams) ([]byte, error) {
	body, err := a.answer(ctx, s, ask.GangsQuestion(p))
	if err != nil || p.Limit > 0 {
		return body, err
	}
	var first map[string]json.RawMessage
	var items []json.RawMessage
	for {
		var page map[string]json.RawMessage
		var more []json.RawMessage
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, fmt.Errorf("the scheduler's answer is not understood: %w", err)
		}
		_ = json.Unmarshal(page["items"], &more) // null, or a list: checked when it is printed
		p.Continue = ""
		_ = json.Unmarshal(page["continue"], &p.Continue)
		items = append(items, more...)
		if first == nil && p.Continue == "" {
			return body, nil // the only page, as it came
		}
		if first == nil {
			first = page
		}
		if p.Continue == "" {
			break
		}
		if body, err = a.answer(ctx, s, ask.GangsQuestion(p)); err != nil {
			return nil, err
		}
	}
	if first["items"], err = json.Marshal(items); err != nil {
		return nil, err
	}
	delete(first, "continue")
	return json.Marshal(first)
}

func (a *asking) printJobs(s *terminal.Screen, g *query.Gangs, p ask.GangsParams, all bool) {
	columns := []string{"NAME", "KIND", "QUEUE", "PHASE", ">GPUS", ">PODS", ">AGE", ">POS", "STARTS"}
	if a.wide() {
		columns = append(columns, "OWNER", ">PRIORITY", "USER", "RUNS FOR", "KEPT NODES", "REASON")
	} else {
		columns = append(columns, "REASON")
	}
	if all {
		columns = append([]string{"NAMESPACE"}, columns...)
	}
	t := terminal.NewTable(columns...)
	t.Optional("USER", "KIND", "RUNS FOR", "OWNER", "KEPT NODES", "PRIORITY", "QUEUE", "AGE", "POS")
	for i := range g.Items {
		t.Add(a.jobRow(s, &g.Items[i], all)...)
	}
	nothing := "Nothing runs or waits"
	if len(g.Hidden) > 0 {
		nothing = "Nothing that you may see runs or waits"
	}
	switch {
	case !t.Empty():
		t.Write(s)
	case all:
		s.Line(terminal.Plain, "%s.", nothing)
	default:
		s.Line(terminal.Plain, "%s in namespace %s (-A: in all namespaces).", nothing, p.Namespace)
	}
	if g.Continue != "" {
		s.Line(terminal.Dim, "There are more: --limit 0 shows all.")
	}
	var sums []string
	for _, phase := range slices.Sorted(maps.Keys(g.Hidden)) {
		sums = append(sums, fmt.Sprintf("%d %s", g.Hidden[phase], phase))
	}
	if len(sums) > 0 {
		s.Line(terminal.Dim, "Not shown, since you may not list their pods: %s.", strings.Join(sums, ", "))
	}
	asOf(s, g.At)
}

// shortName is what people call a gang: Volcano calls the PodGroup of a Job by the Job's
// name and UID, and every command takes the Job's name for it.
func shortName(g *query.Gang) string {
	if rest, ok := strings.CutPrefix(g.Name, g.Owner+"-"); ok && g.Owner != "" && len(rest) == 36 && strings.Count(rest, "-") == 4 {
		return g.Owner
	}
	return g.Name
}

func (a *asking) jobRow(s *terminal.Screen, g *query.Gang, all bool) []any {
	pods := fmt.Sprintf("%d/%d", g.Placed, g.Need)
	position, starts, reason := "", none, ""
	if g.Position > 0 {
		position = strconv.Itoa(g.Position)
	}
	if g.ExpectedStart != nil {
		starts = moment(*g.ExpectedStart, s.Now())
	}
	if g.Reason != nil {
		reason = g.Reason.Text
		if g.Reason.Never {
			starts = "never, as is"
		}
	}
	age := none
	if !g.Submitted.IsZero() {
		age = span(s.Now().Sub(g.Submitted))
	}
	name := g.Name
	if !a.wide() {
		name = shortName(g)
	}
	row := []any{name, g.Kind, or(g.Queue), styled(g.Phase), thousandths(g.Milli), pods, age, position, starts}
	if a.wide() {
		runs := none
		if g.RuntimeSeconds > 0 {
			runs = span(secondsOf(g.RuntimeSeconds))
			if g.Learned {
				runs += " (learned)"
			}
		}
		row = append(row, or(g.Owner), strconv.Itoa(int(g.Priority)), or(g.User), runs, or(some(g.Reserved, 4)))
	}
	row = append(row, reason)
	if all {
		row = append([]any{g.Namespace}, row...)
	}
	return row
}
