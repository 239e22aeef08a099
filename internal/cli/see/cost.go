package see

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/terminal"
)

func newCost(c Config) *cobra.Command {
	var a *asking
	var by []string
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Show GPU hours and what they cost, by namespace, queue, user or model",
		Long: `Show how many GPU hours were used and what they cost, since the scheduler that leads now
began to count: a new leader begins at 0. Sums over longer times are Prometheus'
(tangram_gpu_hours_total, tangram_cost_total).

Prices come from the scheduler's price table (chart value scheduler.prices). Hours of models
without a price cost nothing and are shown apart.`,
		Example: `  tangram cost
  tangram cost --by queue,model
  tangram cost --by user -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd, a, ask.About(query.PathUsage, query.ParamBy, strings.Join(by, ",")), a.printCost)
		},
	}
	a = newAsking(c, cmd).addFormat(cmd)
	cmd.Flags().StringSliceVar(&by, "by", []string{"namespace"}, "columns to sum by: "+strings.Join(query.UsageBy(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(query.UsageBy(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *asking) printCost(s *terminal.Screen, u *query.Usage) {
	priced := u.Currency != ""
	var columns []string
	for _, name := range u.By {
		columns = append(columns, strings.ToUpper(name))
	}
	columns = append(columns, ">GPUS NOW", ">GPU HOURS")
	if priced {
		columns = append(columns, ">COST ("+u.Currency+")", ">HOURS WITHOUT A PRICE")
	}
	t := terminal.NewTable(columns...)
	add := func(style terminal.Style, keys []string, sums query.UsageSums) {
		row := make([]any, 0, len(columns))
		for _, k := range keys {
			row = append(row, terminal.Cell{Text: k, Style: style})
		}
		row = append(row, thousandths(sums.Milli), gpuHours(sums.MilliSeconds))
		if priced {
			row = append(row, money(sums.CostMicro), gpuHours(sums.UnpricedMilliSeconds))
		}
		t.Add(row...)
	}
	for _, x := range u.Items {
		of := map[string]string{"queue": x.Queue, "namespace": x.Namespace, "user": x.User, "model": x.Model}
		var keys []string
		for _, name := range u.By {
			keys = append(keys, or(of[name]))
		}
		add(terminal.Plain, keys, x.UsageSums)
	}
	// One word in the first column, the others empty.
	remark := func(word string) []string {
		return append([]string{word}, slices.Repeat([]string{""}, max(len(u.By)-1, 0))...)
	}
	if u.Hidden != (query.UsageSums{}) {
		add(terminal.Dim, remark("(not shown)"), u.Hidden)
	}
	add(terminal.Bold, remark("total"), u.Total)
	t.Write(s)
	if a.wide() && len(u.Prices) > 0 {
		s.Blank()
		p := terminal.NewTable("MODEL", ">"+u.Currency+" PER GPU HOUR")
		for _, x := range u.Prices {
			p.Add(x.Model, money(x.Micro))
		}
		p.Write(s)
	}
	if !priced {
		s.Blank()
		s.Line(terminal.Dim, "There are no prices: set scheduler.prices in the chart, or metrics.priceTable of plugin GPUQueue.")
	}
	s.Blank()
	s.Line(terminal.Dim, "Counted since %s (%s), when this leader began.", u.Since.Local().Format("2006-01-02 15:04:05 MST"), span(u.At.Sub(u.Since)))
	s.Line(terminal.Dim, "%s", asOfText(u.At, s.Now()))
}

// gpuHours of thousandths of GPUs times seconds.
func gpuHours(milliSeconds int64) string {
	return strconv.FormatFloat(float64(milliSeconds)/3_600_000, 'f', 2, 64)
}

// money in millionths, with two decimals.
func money(micro int64) string { return strconv.FormatFloat(float64(micro)/1e6, 'f', 2, 64) }
