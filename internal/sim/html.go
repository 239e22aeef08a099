package sim

import (
	"bytes"
	_ "embed" // the page
	"fmt"
	"html/template"
	"os"
	"path/filepath"

	"github.com/tangram-dev/tangram/core/pack"
)

//go:embed report.tmpl.html
var pageSource string

// page is what the template shows.
type page struct {
	Title, Nodes, Pods string
	Config             *Config
	GPUs               string
	Loads              []string
	Reports            []*Report
	Lost               chart
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
		"percent":   func(s Stat) string { return fmt.Sprintf("%.2f ± %.2f", s.Mean, s.Std) },
		"at":        func(r *Report, load string) Figures { return r.At[load] },
		"thousands": thousands,
		"colour":    colour,
	}).Parse(pageSource)
	if err == nil {
		_, err = parsed.Parse(chartSource)
	}
	if err != nil {
		return fmt.Errorf("page template: %w", err)
	}
	p := page{
		Title: "Packing report", Nodes: filepath.Base(config.Nodes), Pods: filepath.Base(config.Pods),
		Config: config, GPUs: thousands(float64(t.Capacity() / pack.Whole)), Reports: reports,
	}
	for _, at := range config.At {
		p.Loads = append(p.Loads, loadKey(at))
	}
	// Demand that was met and fragments, each against what has arrived; above them
	// the difference that matters, which the first cannot show.
	p.Lost = lostChart(reports)
	p.Charts = []chart{
		newChart("Allocated GPU", "percent of all GPUs; dashed: what was asked for", 520, reports, 0,
			func(_ int, s sample) float64 { return 100 - s.unallocated }).withDiagonal(),
		newChart("Fragmented GPU", "percent of all GPUs that the next typical GPU request could not use (F)", 520, reports, 0,
			func(_ int, s sample) float64 { return s.fragGPU }),
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

// thousands is a whole number as people read it.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
