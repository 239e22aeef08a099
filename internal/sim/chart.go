package sim

import (
	"bytes"
	"cmp"
	_ "embed" // the picture
	"fmt"
	"html/template"
	"math"
	"os"
	"slices"
	"strings"
)

//go:embed chart.tmpl.svg
var chartSource string

// chart is a picture of lines, drawn here so that it shows without a script.
type chart struct {
	Title, Unit string
	Lines       []line
	Diagonal    string
	XTicks      []tick
	YTicks      []tick
	// The picture's size and the edges of the plot, in its own units.
	Width, Height, Left, Right, Top, Bottom float64

	from, points int // loads, in percent: the first, and one after the last
	top          float64
}

type line struct {
	Policy, Path string
	Colour       string
	Label        tick // at its end
	Last         float64
}

type tick struct {
	At    float64
	Label string
}

// labelGap is the least distance between two labels.
const labelGap = 17

// newChart draws a line per policy through the values at each percent of load from
// a given one on.
func newChart(title, unit string, width float64, reports []*Report, from int, value func(load int, s sample) float64) chart {
	c := chart{Title: title, Unit: unit, Width: width, Height: 340, Left: 44, Right: width - 120, Top: 12, Bottom: 300, from: from}
	for _, r := range reports {
		c.points = max(c.points, len(r.curve))
		for i, s := range r.curve {
			c.top = max(c.top, value(i, s))
		}
	}
	if c.points < from+2 {
		return c
	}
	c.top = max(math.Ceil(c.top/5)*5, 5)
	every := 10
	if (c.Right-c.Left)/float64(c.points-from) < 5 { // labels would touch
		every = 20
	}
	for i := (from + every - 1) / every * every; i < c.points; i += every {
		c.XTicks = append(c.XTicks, tick{round(c.x(float64(i))), fmt.Sprint(i, "%")})
	}
	for part := range 6 {
		v := c.top * float64(part) / 5
		c.YTicks = append(c.YTicks, tick{round(c.y(v)), fmt.Sprintf("%g", v)})
	}
	for _, r := range reports {
		if len(r.curve) <= from {
			continue
		}
		var path strings.Builder
		for i := from; i < len(r.curve); i++ {
			verb := "L"
			if i == from {
				verb = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", verb, c.x(float64(i)), c.y(value(i, r.curve[i])))
		}
		last := value(len(r.curve)-1, r.curve[len(r.curve)-1])
		c.Lines = append(c.Lines, line{r.Policy, path.String(), colour(r.Policy), tick{c.y(last), fmt.Sprintf("%s %.1f", r.Policy, last)}, last})
	}
	c.spreadLabels()
	return c
}

func (c *chart) x(load float64) float64 {
	return c.Left + (load-float64(c.from))/float64(c.points-1-c.from)*(c.Right-c.Left)
}

func (c *chart) y(v float64) float64 { return c.Bottom - v/c.top*(c.Bottom-c.Top) }

// spreadLabels moves labels apart that would cover each other: from the bottom up,
// and down again where that led out of the picture.
func (c *chart) spreadLabels() {
	order := make([]*line, len(c.Lines))
	for i := range c.Lines {
		order[i] = &c.Lines[i]
	}
	slices.SortStableFunc(order, func(a, b *line) int { return cmp.Compare(b.Label.At, a.Label.At) }) // the lowest in the picture first
	limit := c.Bottom
	for _, l := range order {
		l.Label.At = min(l.Label.At, limit)
		limit = l.Label.At - labelGap
	}
	limit = c.Top
	for _, l := range slices.Backward(order) {
		l.Label.At = round(max(l.Label.At, limit))
		limit = l.Label.At + labelGap
	}
}

// withDiagonal adds the line of a policy that places all that was asked for.
func (c chart) withDiagonal() chart {
	if len(c.Lines) > 0 {
		end := min(float64(c.points-1), c.top)
		c.Diagonal = fmt.Sprintf("M%.1f %.1fL%.1f %.1f", c.x(0), c.y(0), c.x(end), c.y(end))
	}
	return c
}

// lostChart shows what a policy costs: GPU that stays unallocated although it was
// asked for. It begins shortly before the first policy loses anything.
func lostChart(reports []*Report) chart {
	lost := func(load int, s sample) float64 { return max(min(float64(load), 100)-(100-s.unallocated), 0) }
	from := 0
	for load := range reports[0].curve {
		if slices.ContainsFunc(reports, func(r *Report) bool { return load < len(r.curve) && lost(load, r.curve[load]) > 0.5 }) {
			from = max(0, load/10*10-10)
			break
		}
	}
	return newChart("GPU unallocated although asked for", "percent of all GPUs, over arrived demand in percent of all GPUs", 1000, reports, from, lost)
}

// writeSVG writes the picture as a file of its own.
func writeSVG(file string, c chart) error {
	parsed, err := template.New("picture").Parse(chartSource)
	if err != nil {
		return fmt.Errorf("picture template: %w", err)
	}
	var out bytes.Buffer
	if err := parsed.ExecuteTemplate(&out, "file", c); err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
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
