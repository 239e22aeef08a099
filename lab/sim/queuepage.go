package sim

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"
)

// queuePage is what the template shows.
type queuePage struct {
	Config  *QueueConfig
	Trace   string
	Jobs    int
	Reports []*QueueReport
	Sizes   []string
	Charts  []chart
}

func writeQueuePage(config *QueueConfig, reports []*QueueReport) error {
	p := queuePage{Config: config, Trace: filepath.Base(config.Jobs), Jobs: reports[0].Jobs, Reports: reports}
	for _, s := range sizeClasses {
		if slices.ContainsFunc(reports, func(r *QueueReport) bool { return r.BySize[s.name].Jobs > 0 }) {
			p.Sizes = append(p.Sizes, s.name)
		}
	}
	p.Charts = []chart{
		timeChart("Jobs that wait", "number of jobs, over days since the first submission", reports,
			func(m moment) float64 { return float64(m.waiting) }),
		timeChart("GPUs in use", "percent of all GPUs, over days since the first submission", reports,
			func(m moment) float64 { return 100 * float64(m.used) / float64(config.GPUs) }),
		delayChart(reports),
	}
	return render(config.HTML, "queue.tmpl.html", p)
}

// newQueueChart is a chart for values up to top, with round numbers at its side.
func newQueueChart(title, unit string, top float64) *chart {
	ticks := ticksUpTo(max(top, 1))
	c := newChart(title, unit, 620, 52, 100, max(top, ticks[len(ticks)-1]))
	for _, v := range ticks {
		c.yTick(v)
	}
	return c
}

// timeBins is how many pieces a curve over time has; each shows the mean of its time.
const timeBins = 330

// timeChart draws a line per policy over time.
func timeChart(title, unit string, reports []*QueueReport, value func(moment) float64) chart {
	end := int64(1)
	for _, r := range reports {
		end = max(end, int64(r.MakespanSeconds*float64(time.Second)))
	}
	curves := make([][]float64, len(reports))
	top := 0.0
	for i, r := range reports {
		curves[i] = binned(r.curve, end, value)
		top = max(top, slices.Max(curves[i]))
	}
	c := newQueueChart(title, unit, top)
	days := float64(end) / float64(24*time.Hour)
	for _, v := range ticksUpTo(days) {
		c.xTick(v/days, fmt.Sprintf("%g", v))
	}
	for i, r := range reports {
		c.line(r.Policy, r.Policy, timeBins, func(bin int) (float64, float64) { return (float64(bin) + 0.5) / timeBins, curves[i][bin] })
	}
	return c.drawn()
}

// binned is the mean of a step curve in equal pieces of time up to end.
func binned(curve []moment, end int64, value func(moment) float64) []float64 {
	out := make([]float64, timeBins)
	width := float64(end) / timeBins
	for i, m := range curve {
		from, to := float64(m.at), float64(end)
		if i+1 < len(curve) {
			to = float64(curve[i+1].at)
		}
		for from < to {
			bin := min(int(from/width), timeBins-1)
			if float64(bin+1)*width <= from && bin < timeBins-1 { // rounding
				bin++
			}
			until := to
			if bin < timeBins-1 {
				until = min(to, float64(bin+1)*width)
			}
			out[bin] += value(m) * (until - from) / width
			from = until
		}
	}
	return out
}

// delayChart draws how many jobs waited at most so long, hours on a logarithmic scale.
func delayChart(reports []*QueueReport) chart {
	const least, most = 0.01, 10000.0 // hours
	c := newQueueChart("Queueing delay", "percent of jobs that waited at most so many hours", 100)
	at := func(hours float64) float64 {
		return (math.Log(max(hours, least)) - math.Log(least)) / (math.Log(most) - math.Log(least))
	}
	for v := least; v <= most*1.001; v *= 10 {
		label := fmt.Sprintf("%g", math.Round(v*1000)/1000)
		if v > 999 {
			label = fmt.Sprintf("%.0fk", v/1000)
		}
		c.xTick(at(v), label)
	}
	for _, r := range reports {
		if len(r.delays) == 0 {
			continue
		}
		c.line(r.Policy, r.Policy, 201, func(i int) (float64, float64) {
			part := float64(i) / 200
			limit := 3600 * least * math.Pow(most/least, part)
			count, _ := slices.BinarySearchFunc(r.delays, limit, func(d, limit float64) int {
				if d <= limit {
					return -1
				}
				return 1
			})
			return part, 100 * float64(count) / float64(len(r.delays))
		})
	}
	return c.drawn()
}
