package sim

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/tangram-dev/tangram/core/pack"
)

// packPage is what the template shows.
type packPage struct {
	Nodes, Pods string
	Config      *PackConfig
	GPUs        string
	Loads       []string
	Reports     []*PackReport
	Lost        []chart
	Charts      []chart
	Map         fleetMap
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

func writePackPage(t *Trace, config *PackConfig, reports []*PackReport) error {
	p := packPage{
		Nodes: filepath.Base(config.Nodes), Pods: filepath.Base(config.Pods), Config: config,
		GPUs: thousands(float64(t.Capacity() / pack.Whole)), Reports: reports, Map: newFleetMap(t, reports),
		// The difference between policies is too small to see in what they allocated.
		Lost: []chart{lostChart(reports)},
	}
	for _, at := range config.At {
		p.Loads = append(p.Loads, loadKey(at))
	}
	allocated := loadChart("Allocated GPU", "percent of all GPUs; dashed: what was asked for", 520, reports, 0,
		func(_ int, s sample) float64 { return 100 - s.unallocated })
	if last := float64(len(reports[0].curve) - 1); len(allocated.Lines) > 0 {
		end := min(last, allocated.top)
		allocated.Diagonal = fmt.Sprintf("M%.1f %.1fL%.1f %.1f", allocated.x(0), allocated.y(0), allocated.x(end/last), allocated.y(end))
	}
	p.Charts = []chart{allocated,
		loadChart("Fragmented GPU", "percent of all GPUs that the next typical GPU request could not use (F)", 520, reports, 0,
			func(_ int, s sample) float64 { return s.fragGPU }),
	}
	return render(config.HTML, "pack.tmpl.html", p)
}

// loadChart draws a line per policy through the values at each percent of load from
// a given one on.
func loadChart(title, unit string, width float64, reports []*PackReport, from int, value func(load int, s sample) float64) chart {
	points, top := 0, 0.0
	for _, r := range reports {
		points = max(points, len(r.curve))
		for i, s := range r.curve {
			top = max(top, value(i, s))
		}
	}
	c := newChart(title, unit, width, 44, 120, max(math.Ceil(top/5)*5, 5))
	if points < from+2 {
		return c.drawn()
	}
	part := func(load int) float64 { return float64(load-from) / float64(points-1-from) }
	every := 10
	if (c.Right-c.Left)/float64(points-from) < 5 { // labels would touch
		every = 20
	}
	for i := (from + every - 1) / every * every; i < points; i += every {
		c.xTick(part(i), fmt.Sprint(i, "%"))
	}
	for i := range 6 {
		c.yTick(c.top * float64(i) / 5)
	}
	for _, r := range reports {
		n := len(r.curve) - from
		if n < 1 {
			continue
		}
		at := func(i int) (float64, float64) { return part(from + i), value(from+i, r.curve[from+i]) }
		_, last := at(n - 1)
		c.line(r.Policy, fmt.Sprintf("%s %.1f", r.Policy, last), n, at)
	}
	return c.drawn()
}

// lostChart shows what a policy costs: GPU that stays unallocated although it was
// asked for. It begins shortly before the first policy loses anything.
func lostChart(reports []*PackReport) chart {
	lost := func(load int, s sample) float64 { return max(min(float64(load), 100)-(100-s.unallocated), 0) }
	from := 0
	for load := range reports[0].curve {
		if slices.ContainsFunc(reports, func(r *PackReport) bool { return load < len(r.curve) && lost(load, r.curve[load]) > 0.5 }) {
			from = max(0, load/10*10-10)
			break
		}
	}
	return loadChart("GPU unallocated although asked for", "percent of all GPUs, over arrived demand in percent of all GPUs", 1000, reports, from, lost)
}

func newFleetMap(t *Trace, reports []*PackReport) fleetMap {
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
