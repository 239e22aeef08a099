package see

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/terminal"
)

// shows says whether a node is among those asked for.
func (t *top) shows(name string) bool { return len(t.only) == 0 || slices.Contains(t.only, name) }

// heldColumns are what is held of devices, and beside it what is charged for them if that
// is another number somewhere.
func (t *top) heldColumns(n *query.Nodes) []string {
	for i := range n.Items {
		for _, d := range n.Items[i].Devices {
			if t.shows(n.Items[i].Name) && d.ChargedMilli > 0 && d.ChargedMilli != d.HeldMilli {
				return []string{">HELD", ">CHARGED"}
			}
		}
	}
	return []string{">HELD"}
}

func (t *top) printNodes(s *terminal.Screen, n *query.Nodes) {
	amounts := t.heldColumns(n)
	columns := slices.Concat([]string{"NODE", "STATE", ">GPUS"}, amounts, []string{"MODELS", "KEPT FOR"})
	for _, level := range n.Levels {
		columns = append(columns, strings.ToUpper(level))
	}
	if t.wide() {
		columns = append(columns, ">FREE CPUS", ">FREE MEMORY")
	}
	table := terminal.NewTable(columns...)
	for _, level := range n.Levels { // the widest first
		table.Optional(strings.ToUpper(level))
	}
	for i := range n.Items {
		x := &n.Items[i]
		if !t.shows(x.Name) {
			continue
		}
		var held, charged int64
		var models []string
		for _, d := range x.Devices {
			held, charged = held+d.HeldMilli, charged+d.ChargedMilli
			if !slices.Contains(models, d.Model) {
				models = append(models, d.Model)
			}
		}
		kept := none
		switch {
		case x.KeptFor != nil:
			kept = gangName(*x.KeptFor)
		case x.Kept:
			kept = "a job that you may not see"
		}
		row := []any{x.Name, styled(x.State), strconv.Itoa(len(x.Devices)), thousandths(held)}
		if len(amounts) > 1 {
			row = append(row, thousandths(charged))
		}
		row = append(row, or(strings.Join(models, ", ")), kept)
		for _, level := range n.Levels {
			row = append(row, or(x.Domains[level]))
		}
		if t.wide() {
			row = append(row, thousandths(x.CPUMilliFree), mebibytes(x.MemoryMiBFree))
		}
		table.Add(row...)
	}
	t.end(s, table, n, len(amounts) > 1)
}

func (t *top) printDevices(s *terminal.Screen, n *query.Nodes) {
	amounts := t.heldColumns(n)
	columns := slices.Concat([]string{"NODE", ">GPU", "MODEL", "STATE"}, amounts, []string{"MODE", ">MEMORY", ">UTIL", ">TEMP", "HELD BY"})
	if t.wide() {
		columns = append(columns, "UUID", "HEALTH")
	}
	table := terminal.NewTable(columns...)
	table.Optional("MODE", "MEMORY", "MODEL")
	for i := range n.Items {
		x := &n.Items[i]
		if !t.shows(x.Name) {
			continue
		}
		for j := range x.Devices {
			d := &x.Devices[j]
			row := []any{x.Name, strconv.Itoa(d.Index), d.Model, styled(d.State), thousandths(d.HeldMilli)}
			if len(amounts) > 1 {
				row = append(row, thousandths(d.ChargedMilli))
			}
			row = append(row, or(d.Mode), mebibytes(d.MemoryMiB), measured(d.Utilization, "%"), measured(d.Temperature, "°C"), holders(d))
			if t.wide() {
				row = append(row, or(d.UUID), strings.TrimSuffix(d.Health+": "+d.Detail, ": "))
			}
			table.Add(row...)
		}
	}
	t.end(s, table, n, len(amounts) > 1)
}

// end writes a table of nodes and the remarks under it; charged: it has that column.
func (t *top) end(s *terminal.Screen, table *terminal.Table, n *query.Nodes, charged bool) {
	switch {
	case !table.Empty():
		table.Write(s)
	case n.Hidden == 0 && len(t.only) == 0:
		s.Line(terminal.Plain, "There are no nodes with GPUs.")
	}
	printHidden(s, n.Hidden, "node", "nodes")
	if charged {
		s.Line(terminal.Dim, "HELD is what is not left for others, CHARGED what queues and quotas count: they differ where GPUs are cut or shared.")
	}
	asOf(s, n.At)
}

func measured(v *int64, unit string) string {
	if v == nil {
		return none
	}
	return strconv.FormatInt(*v, 10) + unit
}

func holders(d *query.Device) string {
	var out []string
	for _, h := range d.Holders {
		text := podName(h.Pod)
		switch {
		case h.Profile != "":
			text += " (" + h.Profile + ")"
		case h.Milli < 1000:
			text += " (" + thousandths(h.Milli) + ")"
		}
		if h.Starting {
			text += " (starting)"
		}
		out = append(out, text)
	}
	return or(seen(out, d.Hidden))
}
