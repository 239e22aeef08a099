package see

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/terminal"
)

// Views of top.
const (
	viewFleet   = "fleet"
	viewNodes   = "nodes"
	viewDevices = "devices"
	viewQueues  = "queues"
)

func newTop(c Config) *cobra.Command {
	var a *asking
	var every time.Duration
	var once bool
	views := []string{viewFleet, viewNodes, viewDevices, viewQueues}
	cmd := &cobra.Command{
		Use:   "top [fleet|nodes|devices|queues] [NODE...]",
		Short: "Show the fleet, its nodes, devices or queues, live in a terminal",
		Long: `Show what there is and what it does: the fleet in sums, every node, every device with its
holders, or the queues. In a terminal it is renewed every two seconds; f, n, d and u choose
the view, j, k, space and b scroll, q ends it. Elsewhere, and with -o or --once, it is shown
once.

HELD is what of a GPU is not left for others. Where GPUs are cut or shared, CHARGED is shown
beside it: what queues and quotas count, as in tangram queues.`,
		Example: `  tangram top
  tangram top devices a100-0 a100-1
  tangram top nodes --once | grep cordoned`,
		RunE: func(cmd *cobra.Command, args []string) error {
			view := viewFleet
			if len(args) > 0 {
				view, args = args[0], args[1:]
			}
			switch {
			case !slices.Contains(views, view):
				return &ask.UsageError{Message: fmt.Sprintf("%q is no view: want one of %s", view, strings.Join(views, ", "))}
			case len(args) > 0 && view != viewNodes && view != viewDevices:
				return &ask.UsageError{Message: fmt.Sprintf("view %s takes no names of nodes", view)}
			case every < 500*time.Millisecond:
				return &ask.UsageError{Message: "--interval: must be 500ms or more"}
			}
			s := a.screen(cmd)
			t := &top{asking: a, only: args}
			if !s.Terminal || once || a.format != formatTable {
				return t.once(cmd, view, s)
			}
			if _, err := a.connect(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
			defer stop()
			return s.Live(ctx, terminal.Live{
				Every: every, First: view,
				Views: map[byte]string{'f': viewFleet, 'n': viewNodes, 'd': viewDevices, 'u': viewQueues},
				Draw:  t.draw,
				Help:  "f fleet  n nodes  d devices  u queues  j k space b scroll  q quit",
			})
		},
	}
	a = newAsking(c, cmd).addFormat(cmd)
	cmd.Flags().DurationVar(&every, "interval", 2*time.Second, "how often a terminal is renewed")
	cmd.Flags().BoolVar(&once, "once", false, "show it once, in a terminal too")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return views, cobra.ShellCompDirectiveNoFileComp
		case args[0] == viewNodes || args[0] == viewDevices:
			return a.complete(nodes)(cmd, args, typed)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// top is a run of the command.
type top struct {
	*asking
	only []string // nodes to show; empty: all

	// What a live view keeps between two frames, which are drawn one at a time: the nodes,
	// of which only those that changed are asked for again, and the last good frame.
	nodes query.Nodes
}

func (t *top) once(cmd *cobra.Command, view string, s *terminal.Screen) error {
	switch view {
	case viewFleet:
		return show(cmd, t.asking, ask.About(query.PathFleet), printFleet)
	case viewQueues:
		return show(cmd, t.asking, ask.About(query.PathQueues), t.printQueues)
	}
	body, err := t.answer(cmd.Context(), s, ask.NodesQuestion(0))
	if err != nil {
		return err
	}
	body, missing, err := t.choose(body)
	if err != nil {
		return err
	}
	err = print(t.asking, s, body, t.table(view))
	if err == nil && len(missing) > 0 {
		return &query.Error{Status: http.StatusNotFound, Message: "no such node with GPUs: " + strings.Join(missing, ", ")}
	}
	return err
}

// table prints nodes in the view of nodes or of devices.
func (t *top) table(view string) func(*terminal.Screen, *query.Nodes) {
	if view == viewNodes {
		return t.printNodes
	}
	return t.printDevices
}

// choose leaves the nodes that were asked for in an answer, with all their fields, and says
// which of them it has not. A caller who may not list nodes is not told which there are.
func (t *top) choose(body []byte) (chosen []byte, missing []string, err error) {
	if len(t.only) == 0 {
		return body, nil, nil
	}
	var answer map[string]json.RawMessage
	var items []json.RawMessage
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, nil, fmt.Errorf("the scheduler's answer is not understood: %w", err)
	}
	_ = json.Unmarshal(answer["items"], &items) // null, or a list: checked when it is printed
	missing = slices.Compact(slices.Sorted(slices.Values(t.only)))
	kept := []json.RawMessage{}
	for _, item := range items {
		var n query.Node
		if json.Unmarshal(item, &n) == nil && t.shows(n.Name) {
			kept = append(kept, item)
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == n.Name })
		}
	}
	if answer["hidden"] != nil {
		missing = nil
	}
	if answer["items"], err = json.Marshal(kept); err != nil {
		return nil, nil, err
	}
	chosen, err = json.Marshal(answer)
	return chosen, missing, err
}

// draw draws a frame. An error is shown in place of the answer, and asked again.
func (t *top) draw(ctx context.Context, view string, s *terminal.Screen) {
	var err error
	switch view {
	case viewFleet:
		err = frame(ctx, t, s, query.PathFleet, printFleet)
	case viewQueues:
		err = frame(ctx, t, s, query.PathQueues, t.printQueues)
	default:
		if err = t.refresh(ctx); err == nil {
			t.table(view)(s, &t.nodes)
		}
	}
	if err != nil {
		s.Line(terminal.Bad, "%v", err)
		s.Line(terminal.Dim, "Asked at %s; it is asked again.", s.Now().Local().Format("15:04:05"))
	}
}

// frame asks for what a view shows and prints it.
func frame[T any](ctx context.Context, t *top, s *terminal.Screen, path string, table func(*terminal.Screen, *T)) error {
	v, err := ask.Get[T](ctx, t.client, ask.About(path))
	if err == nil {
		table(s, v)
	}
	return err
}

// refresh asks for nodes that changed since the last frame and puts them in their places.
func (t *top) refresh(ctx context.Context) error {
	n, err := ask.Get[query.Nodes](ctx, t.client, ask.NodesQuestion(t.nodes.Version))
	if err != nil {
		return err
	}
	if n.Partial {
		byName := map[string]query.Node{}
		for _, x := range append(t.nodes.Items, n.Items...) {
			byName[x.Name] = x
		}
		for _, gone := range n.Removed {
			delete(byName, gone)
		}
		n.Items = nil
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			n.Items = append(n.Items, byName[name])
		}
	}
	t.nodes = *n
	return nil
}

// states are the columns of the fleet's table, in this order; others follow by name.
var states = []string{"free", "allocated", "idle_allocated", "degraded", "cordoned", "failed"}

func printFleet(s *terminal.Screen, f *query.Fleet) {
	head := fmt.Sprintf("%s, leader %s", or(f.Scheduler.Version), or(f.Scheduler.Holder))
	if f.Scheduler.Suspended {
		s.Line(terminal.Bad, "%s: the API server does not answer it, and nothing is started", head)
	} else {
		s.Line(terminal.Bold, "%s", head)
	}
	n, w := f.Nodes, f.Work
	s.Field("Nodes", label, terminal.Plain, fmt.Sprintf("%d with GPUs: %d ready, %d cordoned, %d lost", n.Total, n.Ready, n.Cordoned, n.Lost))
	runs := fmt.Sprintf("%s, %s", Count(w.RunningGangs, "job"), Count(w.RunningPods, "pod"))
	if w.ChargedMilli > 0 {
		runs += ", charged " + gpus(w.ChargedMilli)
	}
	s.Field("Runs", label, terminal.Plain, runs)
	waits := fmt.Sprintf("%s, %s", Count(w.WaitingGangs, "job"), Count(w.WaitingPods, "pod"))
	if w.WaitingGangs > 0 {
		waits += ", the oldest for " + span(secondsOf(w.OldestSeconds))
	}
	if w.Reservations > 0 {
		waits += "; nodes are kept for " + Count(w.Reservations, "job")
	}
	s.Field("Waits", label, terminal.Plain, waits)
	s.Field("Unusable", label, terminal.Plain, fmt.Sprintf("%.1f %% of the free GPUs, for what waits or is typical", 100*f.Fragmentation))
	s.Blank()
	shown := slices.Clone(states)
	for _, m := range f.Models {
		for _, name := range slices.Sorted(maps.Keys(m.ByState)) {
			if !slices.Contains(shown, name) {
				shown = append(shown, name)
			}
		}
	}
	columns := []string{"MODEL", ">GPUS"}
	for _, name := range shown {
		columns = append(columns, ">"+strings.ToUpper(strings.ReplaceAll(name, "_", " ")))
	}
	t := terminal.NewTable(columns...)
	t.Optional("IDLE ALLOCATED")
	for _, m := range f.Models {
		row := []any{m.Vendor + " " + m.Model, thousandths(m.Milli)}
		for _, name := range shown {
			cell := terminal.Cell{Text: thousandths(m.ByState[name])}
			if m.ByState[name] > 0 {
				cell.Style = styles[name]
			}
			row = append(row, cell)
		}
		t.Add(row...)
	}
	t.Write(s)
	asOf(s, f.At)
}
