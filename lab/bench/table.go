package bench

import (
	"fmt"
	"io"
	"strings"
)

// writeTable prints the summary as text: one row per contender, numbers right-aligned,
// problems below.
func (r *Report) writeTable(w io.Writer) error {
	var b strings.Builder
	s := r.Settings
	arrival := "created as fast as possible"
	if s.Rate > 0 {
		arrival = fmt.Sprintf("arriving at %g/s", s.Rate)
	}
	load := fmt.Sprintf("%d pods", s.Pods)
	if s.Gangs > 0 {
		load = fmt.Sprintf("%s of %s", plural(s.Gangs, "gang"), plural(s.GangSize, "pod"))
	}
	fmt.Fprintf(&b, "%d nodes x %d GPUs, %s of %d GPU, %s, %s, %d CPUs\n\n",
		s.Nodes, s.GPUsPerNode, load, s.GPUsPerPod, arrival, plural(s.Rounds, "round"), r.Machine.CPUs)
	rows := [][]string{
		{"", "", "of", "of kube-", "scheduler", "create to bound ms", "", "", "peak", "nodes", "client", "other"},
		{"contender", "pods/s", "ceiling", "scheduler", "CPU ms/pod", "p50", "p95", "p99", "MiB", "used", "CPU ms/pod", "CPU"},
	}
	for i := range r.Summary {
		rows = append(rows, tableRow(&r.Summary[i]))
	}
	alignRows(&b, rows)
	if s.Gangs > 0 {
		b.WriteString("\n")
		alignRows(&b, gangRows(r.Summary))
	}
	if rows := askedRows(r.Summary); len(rows) > 1 {
		fmt.Fprintf(&b, "\nasked %s with %s waiting\n", s.Ask, plural(s.Pending, "pod"))
		alignRows(&b, rows)
		for i := range r.Summary {
			if a := r.Summary[i].Asked; a != nil && a.Slowest != "" {
				fmt.Fprintf(&b, "the slowest answer in ms: %s\n", strings.ReplaceAll(a.Slowest, ";dur=", " "))
			}
		}
	}
	if noise := r.worstNoise(); noise > noisyShare {
		fmt.Fprintf(&b, "\nOther processes took up to %.0f%% of the machine: repeat on a quiet one, or with more --rounds.\n", 100*noise)
	}
	for i := range r.Summary {
		for _, p := range r.Summary[i].Problems {
			fmt.Fprintf(&b, "\nINVALID %s: %s", r.Summary[i].Contender, p)
		}
		if !r.Summary[i].Valid() {
			b.WriteString("\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// noisyShare is about the share of the machine in use by other processes that changes a
// rate by as much as the differences worth reporting.
const noisyShare = 0.10

func (r *Report) worstNoise() float64 {
	worst := 0.0
	for i := range r.Trials {
		worst = max(worst, r.Trials[i].OtherCPU)
	}
	return worst
}

func rowName(r *Result) string {
	if !r.Valid() {
		return r.Contender + " (INVALID)"
	}
	return r.Contender
}

func tableRow(r *Result) []string {
	return []string{
		rowName(r),
		fmt.Sprintf("%.0f", r.PodsPerSecond),
		ratio(r.OfCeiling), ratio(r.OfKubeScheduler),
		fmt.Sprintf("%.2f", r.SchedulerCPU),
		fmt.Sprintf("%.1f", r.CreateToBound.P50),
		fmt.Sprintf("%.1f", r.CreateToBound.P95),
		fmt.Sprintf("%.1f", r.CreateToBound.P99),
		fmt.Sprintf("%.0f", r.PeakMemory),
		fmt.Sprint(r.NodesUsed),
		fmt.Sprintf("%.2f", r.ClientCPU),
		fmt.Sprintf("%.0f%%", 100*r.OtherCPU),
	}
}

func ratio(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *v)
}

// alignRows pads cells to the width of their column, the first column to the
// left and all others to the right. A cell followed by empty ones in the first
// row is a heading over several columns: it widens the first of them, by what all
// of them lack.
func alignRows(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for i, row := range rows {
		for c, cell := range row {
			if i == 0 && spans(row, c) > 1 {
				continue
			}
			widths[c] = max(widths[c], len(cell))
		}
	}
	for c := 1; c < len(widths); c++ {
		n := spans(rows[0], c)
		below := 2 * (n - 1)
		for _, w := range widths[c : c+n] {
			below += w
		}
		widths[c] += max(0, len(rows[0][c])-below)
	}
	for i, row := range rows {
		var line strings.Builder
		for c := 0; c < len(row); c++ {
			cell, width := row[c], widths[c]
			if i == 0 && c > 0 {
				// A heading takes the width of all the columns below it.
				for n := spans(row, c); n > 1; n-- {
					c++
					width += 2 + widths[c]
				}
			}
			switch {
			case line.Len() == 0 && c == 0:
				fmt.Fprintf(&line, "%-*s", width, cell)
			default:
				fmt.Fprintf(&line, "  %*s", width, cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteString("\n")
	}
}

// spans is the number of columns that the cell at c covers: itself and the empty
// cells after it.
func spans(row []string, c int) int {
	if row[c] == "" {
		return 1
	}
	n := 1
	for c+n < len(row) && row[c+n] == "" {
		n++
	}
	return n
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
