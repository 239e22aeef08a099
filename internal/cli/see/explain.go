package see

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/terminal"
)

func secondsOf(n int64) time.Duration { return time.Duration(n) * time.Second }

func newExplain(c Config) *cobra.Command {
	var a *asking
	cmd := &cobra.Command{
		Use:   "explain POD",
		Short: "Say why a pod is where it is",
		Long: `Say on which node and devices a pod is, how that place scores by each objective, which
other nodes could take it and how they score, and why the rest cannot.

Scores are as found now, with the pod taken out: what was true when it was placed is not
kept. With --dump the answer comes from a file of tangram dump, without a cluster.`,
		Example: `  tangram explain train-0 -n ml-team
  tangram explain train-0 -o wide       # every objective of every runner-up`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.object(args)
			if err != nil {
				return err
			}
			if o.Kind != "" && o.Kind != "Pod" {
				return &ask.UsageError{Message: "explain is about one pod: " + o.Kind + " is none"}
			}
			return show(cmd, a, ask.ExplainQuestion(o.Namespace, o.Name), a.printExplain)
		},
	}
	a = newAsking(c, cmd).addFormat(cmd)
	a.addDump(cmd)
	cmd.ValidArgsFunction = a.complete(pods)
	return cmd
}

func (a *asking) printExplain(s *terminal.Screen, e *query.Explain) {
	s.Line(terminal.Bold, "%s is on %s, devices %s", podName(e.Pod), or(e.Node), parts(e.Devices))
	if e.Gang.Name != "" && e.Gang.Name != e.Pod.Name {
		s.Field("Gang", label, terminal.Plain, gangName(e.Gang))
	}
	if e.Decided != nil {
		s.Field("Decided", label, terminal.Plain, span(s.Now().Sub(*e.Decided))+" ago ("+e.Decided.Local().Format("2006-01-02 15:04:05")+")")
	}
	s.Blank()
	t := terminal.NewTable("OBJECTIVE", ">SCORE", ">WEIGHT")
	for _, term := range e.Terms {
		t.Add(term.Name, strconv.Itoa(term.Score), strconv.Itoa(term.Weight))
	}
	t.Add(terminal.Cell{Text: "total", Style: terminal.Bold}, terminal.Cell{Text: strconv.Itoa(e.Total), Style: terminal.Bold})
	t.Write(s)
	if a.wide() && len(e.Fleet) > 0 {
		s.Blank()
		t := terminal.NewTable("COST TO THE FLEET", ">VALUE")
		for _, name := range slices.Sorted(maps.Keys(e.Fleet)) {
			t.Add(name, strconv.FormatInt(e.Fleet[name], 10))
		}
		t.Write(s)
	}
	s.Blank()
	a.printRunnersUp(s, e)
	if len(e.Refused) > 0 {
		s.Blank()
		printCauses(s, "Others", e.Refused)
	}
	printHidden(s, e.Hidden, "node", "nodes")
	if e.Note != "" {
		s.Blank()
		s.Field("Note", label, terminal.Plain, e.Note)
	}
	asOf(s, e.At)
}

func (a *asking) printRunnersUp(s *terminal.Screen, e *query.Explain) {
	if len(e.RunnersUp) == 0 {
		s.Line(terminal.Plain, "No other node can take it.")
		return
	}
	columns := []string{"RUNNER-UP", ">TOTAL"}
	if a.wide() {
		for _, term := range e.Terms {
			columns = append(columns, ">"+term.Name)
		}
	}
	t := terminal.NewTable(columns...)
	for _, r := range e.RunnersUp {
		row := []any{r.Node, strconv.Itoa(r.Total)}
		if a.wide() {
			for _, want := range e.Terms {
				i := slices.IndexFunc(r.Terms, func(x query.Term) bool { return x.Name == want.Name })
				text := none
				if i >= 0 {
					text = strconv.Itoa(r.Terms[i].Score)
				}
				row = append(row, text)
			}
		}
		t.Add(row...)
	}
	t.Write(s)
}
