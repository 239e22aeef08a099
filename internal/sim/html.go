package sim

import (
	"bytes"
	_ "embed" // the page
	"fmt"
	"html/template"
	"math"
	"os"
	"strings"

	"github.com/tangram-dev/tangram/core/pack"
)

//go:embed report.tmpl.html
var pageSource string

// page is what the template shows.
type page struct {
	Title, Nodes, Pods string
	Config             *Config
	GPUs               int64
	Loads              []string
	Reports            []*Report
	Charts             []chart
	Map                fleetMap
}

// fleetMap is the fleet at the end of the first seed, for the script.
type fleetMap struct {
	Models   []string    `json:"models"`
	Nodes    []mapNode   `json:"nodes"`
	Policies []mapPolicy `json:"policies"`
}

type mapNode struct {
	Name   string `json:"n"`
	Model  int    `json:"m"`
	CPU    int64  `json:"c"` // capacity, milli
	Memory int64  `json:"a"` // capacity, MiB
}

type mapPolicy struct {
	Name string    `json:"name"`
	Free [][]int64 `json:"free"` // by node: CPU, memory, then milli per GPU
}

// writePage writes the report as one file that needs nothing else.
func writePage(file string, t *Trace, config *Config, reports []*Report) error {
	parsed, err := template.New("page").Funcs(template.FuncMap{
		"percent": func(s Stat) string { return fmt.Sprintf("%.2f ± %.2f", s.Mean, s.Std) },
		"at":      func(r *Report, load string) Figures { return r.At[load] },
		"colour":  colour,
		"thousands": func(v float64) string {
			s := fmt.Sprintf("%.0f", v)
			for i := len(s) - 3; i > 0; i -= 3 {
				s = s[:i] + "," + s[i:]
			}
			return s
		},
	}).Parse(pageSource)
	if err != nil {
		return fmt.Errorf("page template: %w", err)
	}
	p := page{Title: "Packing report", Nodes: config.Nodes, Pods: config.Pods, Config: config, GPUs: t.Capacity() / pack.Whole, Reports: reports}
	for _, at := range config.At {
		p.Loads = append(p.Loads, loadKey(at))
	}
	p.Charts = []chart{
		newChart("Allocated GPU over arrived demand", "percent of all GPUs; the diagonal is what was asked for", reports,
			func(_ int, s sample) float64 { return 100 - s.unallocated }, true),
		// The first picture cannot show a difference of one percent; this one can.
		newChart("GPU not sold although asked for", "percent of all GPUs: arrived demand, up to the capacity, less what is allocated", reports,
			func(load int, s sample) float64 { return max(min(float64(load), 100)-(100-s.unallocated), 0) }, false),
		newChart("Fragmented GPU over arrived demand", "percent of all GPUs that the next typical GPU request could not use (F)", reports,
			func(_ int, s sample) float64 { return s.fragGPU }, false),
	}
	p.Map = newFleetMap(t, reports)
	var out bytes.Buffer
	if err := parsed.Execute(&out, p); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

func newFleetMap(t *Trace, reports []*Report) fleetMap {
	m := fleetMap{Models: t.Models}
	for _, n := range t.Nodes {
		m.Nodes = append(m.Nodes, mapNode{n.Name, int(n.Empty.Model), n.Empty.CPU, n.Empty.Memory})
	}
	for _, r := range reports {
		p := mapPolicy{Name: r.Policy}
		for _, s := range r.last.end {
			free := []int64{s.CPU, s.Memory}
			for _, f := range s.Free[:s.GPUs] {
				free = append(free, int64(f))
			}
			p.Free = append(p.Free, free)
		}
		m.Policies = append(m.Policies, p)
	}
	return m
}

// colour is that of a policy: Tangram's own stands out, the others are told apart
// by hue.
func colour(policy string) string {
	switch policy {
	case "tangram":
		return "#d9480f"
	case "fgd":
		return "#1c7ed6"
	case "bestfit":
		return "#2b8a3e"
	case "packing":
		return "#862e9c"
	case "clustering":
		return "#0b7285"
	case "dotprod":
		return "#a67c00"
	default:
		return "#868e96"
	}
}

// chart is a picture of lines, drawn here so that it shows without a script.
type chart struct {
	Title, Unit string
	Lines       []line
	Diagonal    string
	XTicks      []tick
	YTicks      []tick
	Width       int
	Height      int
}

type line struct {
	Policy, Path string
	Last         float64
}

type tick struct {
	At    float64
	Label string
}

// The picture's size and margins, in its own units.
const (
	chartWidth, chartHeight = 720, 340
	chartLeft, chartBottom  = 48, 32
	chartTop, chartRight    = 12, 16
)

// newChart draws a line per policy through the values at each percent of load.
func newChart(title, unit string, reports []*Report, value func(load int, s sample) float64, diagonal bool) chart {
	c := chart{Title: title, Unit: unit, Width: chartWidth, Height: chartHeight}
	points, top := 0, 0.0
	for _, r := range reports {
		points = max(points, len(r.curve))
		for i, s := range r.curve {
			top = max(top, value(i, s))
		}
	}
	if points < 2 {
		return c
	}
	top = max(math.Ceil(top/5)*5, 5)
	x := func(i float64) float64 {
		return chartLeft + i/float64(points-1)*(chartWidth-chartLeft-chartRight)
	}
	y := func(v float64) float64 { return chartHeight - chartBottom - v/top*(chartHeight-chartBottom-chartTop) }
	for i := 0; i < points; i += 10 {
		c.XTicks = append(c.XTicks, tick{round(x(float64(i))), fmt.Sprint(i, "%")})
	}
	for part := range 6 {
		v := top * float64(part) / 5
		c.YTicks = append(c.YTicks, tick{round(y(v)), fmt.Sprintf("%g", v)})
	}
	for _, r := range reports {
		var path strings.Builder
		for i, s := range r.curve {
			verb := "L"
			if i == 0 {
				verb = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", verb, x(float64(i)), y(value(i, s)))
		}
		c.Lines = append(c.Lines, line{r.Policy, path.String(), value(len(r.curve)-1, r.curve[len(r.curve)-1])})
	}
	if diagonal {
		end := min(float64(points-1), top)
		c.Diagonal = fmt.Sprintf("M%.1f %.1fL%.1f %.1f", x(0), y(0), x(end), y(end))
	}
	return c
}
