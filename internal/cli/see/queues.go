package see

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/terminal"
)

func newQueues(c Config) *cobra.Command {
	var a *asking
	cmd := &cobra.Command{
		Use:   "queues",
		Short: "Show the tree of queues: shares, limits, use",
		Long: `Show the queues as a tree, with what each uses, is entitled to and wants, in GPUs.

BALANCE is what a queue is owed (above 0) or owes (below) of its share, in GPU hours.`,
		Example: `  tangram queues
  tangram queues -o wide       # every resource, not GPUs alone`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd, a, ask.About(query.PathQueues), a.printQueues)
		},
	}
	a = newAsking(c, cmd).addFormat(cmd)
	return cmd
}

func (a *asking) printQueues(s *terminal.Screen, q *query.Queues) {
	columns := []string{"QUEUE", "STATE", ">WEIGHT", ">USED", ">ENTITLED", ">WANTED", ">GUARANTEE", ">AT MOST", ">BALANCE", ">RUN", ">WAIT"}
	if a.wide() {
		columns = append(columns, "OTHER RESOURCES (USED/ENTITLED)")
	}
	t := terminal.NewTable(columns...)
	t.Optional("WEIGHT", "GUARANTEE", "STATE", "BALANCE")
	for _, x := range inTree(q.Items) {
		used := terminal.Cell{Text: thousandths(x.GPUs.Used)}
		if x.GPUs.Used > x.GPUs.Entitled {
			used.Style = terminal.Warn
		}
		row := []any{x.shown, styled(x.State), strconv.FormatInt(x.Weight, 10), used,
			thousandths(x.GPUs.Entitled), thousandths(x.GPUs.Wanted), limit(x.GPUs.Guarantee), limit(x.GPUs.Capability),
			fmt.Sprintf("%+.1f", x.Balance/3600), strconv.Itoa(x.Running), strconv.Itoa(x.Waiting)}
		if a.wide() {
			row = append(row, resources(x.Resources))
		}
		t.Add(row...)
	}
	if t.Empty() {
		s.Line(terminal.Plain, "There are no queues that you may see.")
	} else {
		t.Write(s)
	}
	printHidden(s, q.Hidden, "queue", "queues")
	asOf(s, q.At)
}

func resources(all []query.QueueResource) string {
	var out []string
	for _, r := range all {
		show := thousandths
		if r.Resource == "memory" {
			show = mebibytes
		}
		out = append(out, fmt.Sprintf("%s %s/%s", r.Resource, show(r.Used), show(r.Entitled)))
	}
	return strings.Join(out, ", ")
}

// branch is a queue and its name as the tree shows it.
type branch struct {
	*query.Queue
	shown string
}

// inTree puts queues under their parents, in the order of the answer. Queues whose parent
// is not there (the caller may not see it) are roots, and so are those of a loop.
func inTree(items []query.Queue) []branch {
	known, children := map[string]bool{}, map[string][]int{}
	for i := range items {
		known[items[i].Name] = true
	}
	var roots []int
	for i := range items {
		if p := items[i].Parent; p != "" && p != items[i].Name && known[p] {
			children[p] = append(children[p], i)
		} else {
			roots = append(roots, i)
		}
	}
	var out []branch
	done := make([]bool, len(items))
	var walk func(i int, before, under string)
	walk = func(i int, before, under string) {
		if done[i] {
			return
		}
		done[i] = true
		out = append(out, branch{&items[i], before + items[i].Name})
		kids := children[items[i].Name]
		for n, k := range kids {
			if n == len(kids)-1 {
				walk(k, under+"└─ ", under+"   ")
			} else {
				walk(k, under+"├─ ", under+"│  ")
			}
		}
	}
	for _, i := range roots {
		walk(i, "", "")
	}
	for i := range items {
		walk(i, "", "")
	}
	return out
}
