package sim

import (
	"bytes"
	_ "embed" // the page
	"fmt"
	"html/template"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed queue.tmpl.html
var queuePageSource string

// queuePage is what the template shows.
type queuePage struct {
	Config  *QueueConfig
	Trace   string
	Jobs    int
	Reports []*QueueReport
	Sizes   []string
	Charts  []chart
}

// writeQueuePage writes the report as one file that needs nothing else.
func writeQueuePage(file string, config *QueueConfig, reports []*QueueReport) error {
	parsed, err := template.New("page").Funcs(template.FuncMap{
		"hours":  func(seconds float64) string { return fmt.Sprintf("%.2f", seconds/3600) },
		"times":  func(r *QueueReport, size string) Times { return r.BySize[size] },
		"colour": queueColour,
		"about":  aboutQueuePolicy,
	}).Parse(chartSource + queuePageSource)
	if err != nil {
		return fmt.Errorf("page template: %w", err)
	}
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
	var out bytes.Buffer
	if err := parsed.Execute(&out, p); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// queueColour is that of a policy: Tangram's own is the same on every page.
func queueColour(policy string) string {
	switch policy {
	case "tangram":
		return "#d9480f"
	case "sjf":
		return "#1c7ed6"
	case "drf":
		return "#2b8a3e"
	case "roundrobin":
		return "#862e9c"
	case "priority":
		return "#a67c00"
	default:
		return "#868e96"
	}
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
	f := newFrame(title, unit, top)
	days := float64(end) / float64(24*time.Hour)
	for _, v := range ticksUpTo(days) {
		f.XTicks = append(f.XTicks, tick{round(f.across(v / days)), fmt.Sprintf("%g", v)})
	}
	for i, r := range reports {
		f.line(r.Policy, timeBins, func(bin int) (float64, float64) { return (float64(bin) + 0.5) / timeBins, curves[i][bin] })
	}
	return f.drawn()
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
	f := newFrame("Queueing delay", "percent of jobs that waited at most so many hours", 100)
	at := func(hours float64) float64 {
		return (math.Log(max(hours, least)) - math.Log(least)) / (math.Log(most) - math.Log(least))
	}
	for v := least; v <= most*1.001; v *= 10 {
		label := fmt.Sprintf("%g", math.Round(v*1000)/1000)
		if v > 999 {
			label = fmt.Sprintf("%.0fk", v/1000)
		}
		f.XTicks = append(f.XTicks, tick{round(f.across(at(v))), label})
	}
	for _, r := range reports {
		if len(r.delays) == 0 {
			continue
		}
		f.line(r.Policy, 201, func(i int) (float64, float64) {
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
	return f.drawn()
}

// frame is a chart being drawn.
type frame struct{ chart }

func newFrame(title, unit string, top float64) *frame {
	const width = 620
	f := &frame{chart{Title: title, Unit: unit, Width: width, Height: 340, Left: 52, Right: width - 100, Top: 12, Bottom: 300}}
	ticks := ticksUpTo(max(top, 1))
	f.top = max(top, ticks[len(ticks)-1])
	for _, v := range ticks {
		f.YTicks = append(f.YTicks, tick{round(f.y(v)), fmt.Sprintf("%g", v)})
	}
	return f
}

// across is the place of a part of 0..1.
func (f *frame) across(part float64) float64 { return f.Left + part*(f.Right-f.Left) }

func (f *frame) line(policy string, points int, at func(i int) (part, value float64)) {
	var path strings.Builder
	last := 0.0
	for i := range points {
		verb := "L"
		if i == 0 {
			verb = "M"
		}
		part, value := at(i)
		fmt.Fprintf(&path, "%s%.1f %.1f", verb, f.across(part), f.y(value))
		last = value
	}
	f.Lines = append(f.Lines, line{policy, path.String(), queueColour(policy), tick{f.y(last), policy}, last})
}

// drawn is the chart, with labels that do not cover each other.
func (f *frame) drawn() chart {
	f.spreadLabels()
	return f.chart
}

// ticksUpTo are four to ten round numbers from 0 up to a value.
func ticksUpTo(top float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(top)))
	for _, part := range []float64{5, 2} {
		if top/step < 4 {
			step /= part
			if part == 5 && top/step > 10 {
				step *= 2.5
			}
		}
	}
	var out []float64
	for i := 0; float64(i)*step <= top*1.000001; i++ {
		out = append(out, round(float64(i)*step))
	}
	return out
}
