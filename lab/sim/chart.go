package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// chart is a picture of lines. It is drawn here, so that it needs no script.
type chart struct {
	Title, Unit string
	Lines       []line
	Diagonal    string
	XTicks      []tick
	YTicks      []tick
	// The picture's size and the edges of the plot, in its own units.
	Width, Height, Left, Right, Top, Bottom float64

	top float64 // the value at the upper edge
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

// newChart is an empty chart for values of 0..top, with margins left and right of the plot.
func newChart(title, unit string, width, left, right, top float64) *chart {
	return &chart{Title: title, Unit: unit, Width: width, Height: 340, Left: left, Right: width - right, Top: 12, Bottom: 300, top: top}
}

// x is the place of a part of 0..1 of the width, y that of a value.
func (c *chart) x(part float64) float64 { return c.Left + part*(c.Right-c.Left) }
func (c *chart) y(v float64) float64    { return c.Bottom - v/c.top*(c.Bottom-c.Top) }

func (c *chart) xTick(part float64, label string) {
	c.XTicks = append(c.XTicks, tick{round(c.x(part)), label})
}

func (c *chart) yTick(v float64) {
	c.YTicks = append(c.YTicks, tick{round(c.y(v)), fmt.Sprintf("%g", v)})
}

// line draws the line of a policy through points.
func (c *chart) line(policy, label string, points int, at func(i int) (part, value float64)) {
	var path strings.Builder
	last := 0.0
	for i := range points {
		verb := "L"
		if i == 0 {
			verb = "M"
		}
		part, value := at(i)
		fmt.Fprintf(&path, "%s%.1f %.1f", verb, c.x(part), c.y(value))
		last = value
	}
	c.Lines = append(c.Lines, line{policy, path.String(), colour(policy), tick{c.y(last), label}, last})
}

// drawn is the chart with labels that do not cover each other: they are moved apart from
// the bottom up, and down again where that led out of the picture.
func (c *chart) drawn() chart {
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
	return *c
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
