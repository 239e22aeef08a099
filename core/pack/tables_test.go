package pack

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// genClass draws a class with the sizes real requests have.
func genClass() *rapid.Generator[Class] {
	return rapid.Custom(func(t *rapid.T) Class {
		c := Class{
			CPU:    int64(rapid.IntRange(0, 12).Draw(t, "cores")) * 1000,
			Memory: int64(rapid.IntRange(0, 8).Draw(t, "gib")) * 4096,
			GPUs:   rapid.SampledFrom([]uint8{0, 1, 1, 1, 1, 2, 4, 8}).Draw(t, "gpus"),
		}
		if c.GPUs > 0 {
			c.Milli = Whole
			c.Models = ModelSet(rapid.SampledFrom([]int{0, 0, 0, 2, 4, 6}).Draw(t, "models"))
		}
		if c.GPUs == 1 && rapid.Bool().Draw(t, "share") {
			c.Milli = uint16(rapid.IntRange(1, 99).Draw(t, "milli") * 10)
			if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
				c.Milli += 7
			}
		}
		return c
	})
}

func genWorkload() *rapid.Generator[[]Demand] {
	return rapid.Custom(func(t *rapid.T) []Demand {
		var demands []Demand
		for range rapid.IntRange(0, 12).Draw(t, "classes") {
			demands = append(demands, Demand{genClass().Draw(t, "class"), float64(rapid.IntRange(1, 50).Draw(t, "count"))})
		}
		return demands
	})
}

// emptyNode is an unused node.
func emptyNode(m ModelID, gpus int, cores, gib int64) Shape {
	s := Shape{CPU: cores * 1000, Memory: gib * 1024, GPUs: uint8(gpus), Model: m}
	for i := range gpus {
		s.Free[i] = Whole
	}
	return s
}

func smallFleet() []Kind {
	return []Kind{
		{emptyNode(1, 8, 96, 384), 5}, {emptyNode(2, 2, 64, 256), 7}, {emptyNode(2, 4, 32, 128), 2},
		{emptyNode(3, 1, 8, 32), 3}, {emptyNode(0, 0, 16, 64), 2},
	}
}

// TestValues: a hole is worth the more the larger it is, nothing when there is
// none, and a GPU when it is one.
func TestValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tables := Build(genWorkload().Draw(t, "workload"), smallFleet())
		if tables.value[0] != 0 || tables.value[Whole] != micro {
			t.Fatalf("value[0] = %d, value[Whole] = %d", tables.value[0], tables.value[Whole])
		}
		for r := 1; r <= Whole; r++ {
			if tables.value[r] < tables.value[r-1] {
				t.Fatalf("value falls from %d to %d at %d", tables.value[r-1], tables.value[r], r)
			}
		}
	})
}

// TestCurves: concave, non-decreasing, up to 1.
func TestCurves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tables := Build(genWorkload().Draw(t, "workload"), smallFleet())
		for _, c := range []curve{tables.cpu, tables.memory} {
			slope := math.Inf(1)
			for i := 1; i < len(c.points); i++ {
				a, b := c.points[i-1], c.points[i]
				next := (b.y - a.y) / (b.x - a.x)
				if b.x <= a.x || b.y < a.y || next > slope*(1+1e-9) {
					t.Fatalf("not concave at point %d: %v", i, c.points)
				}
				slope = next
			}
			if last := c.points[len(c.points)-1]; last.y != 1 {
				t.Fatalf("ends at %v", last)
			}
		}
	})
}

// TestPotentialGrows: more of anything is never worth less, and a placement
// never gains.
func TestPotentialGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tables := Build(genWorkload().Draw(t, "workload"), smallFleet())
		s := emptyNode(1, 4, rapid.Int64Range(0, 40).Draw(t, "cores"), rapid.Int64Range(0, 100).Draw(t, "gib"))
		for i := range s.GPUs {
			s.Free[i] = uint16(rapid.IntRange(0, Whole).Draw(t, "free"))
		}
		before := tables.Potential(&s)
		more := s
		switch slot := rapid.IntRange(0, 5).Draw(t, "what"); slot {
		case 4:
			more.CPU += 1000
		case 5:
			more.Memory += 1024
		default:
			more.Free[slot] = min(more.Free[slot]+50, Whole)
		}
		if after := tables.Potential(&more); after < before {
			t.Fatalf("%+v is worth %d, %+v only %d", s, before, more, after)
		}
		if idle := s.Idle() * (micro / Whole); before > idle+int64(s.GPUs)*micro {
			t.Fatalf("potential %d of %d idle", before, idle)
		}
	})
}

// TestPricesAreOptimal proves the linear program solved: the number of bars is
// that of the best of all bases, found by trying them all; and no pattern is
// worth more than a bar at the prices.
func TestPricesAreOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pieces []piece
		for _, size := range rapid.SliceOfNDistinct(rapid.IntRange(17, 100), 1, 3, rapid.ID).Draw(t, "sizes") {
			pieces = append(pieces, piece{size, float64(rapid.IntRange(1, 40).Draw(t, "demand"))})
		}
		dual, bars := prices(pieces)
		patterns := allPatterns(pieces)
		for _, p := range patterns {
			worth := 0.0
			for i, count := range p {
				worth += dual[i] * count
			}
			if worth > 1+1e-6 {
				t.Fatalf("pattern %v is worth %v at %v", p, worth, dual)
			}
		}
		if want := bestBasis(pieces, patterns); math.Abs(bars-want) > 1e-6*want {
			t.Fatalf("%v: got %v bars, want %v", pieces, bars, want)
		}
	})
}

// allPatterns is every way to cut a bar.
func allPatterns(pieces []piece) [][]float64 {
	patterns := [][]float64{{}}
	for _, p := range pieces {
		var next [][]float64
		for _, before := range patterns {
			for count := 0; count*p.size <= units; count++ {
				next = append(next, append(append([]float64{}, before...), float64(count)))
			}
		}
		patterns = next
	}
	var fit [][]float64
	for _, p := range patterns {
		used := 0
		for i, count := range p {
			used += int(count) * pieces[i].size
		}
		if used <= units && used > 0 {
			fit = append(fit, p)
		}
	}
	return fit
}

// bestBasis tries all bases of the covering program, whose optimum is at one.
func bestBasis(pieces []piece, patterns [][]float64) float64 {
	n := len(pieces)
	best := math.Inf(1)
	var try func(from int, chosen [][]float64)
	try = func(from int, chosen [][]float64) {
		if len(chosen) < n {
			for i := from; i < len(patterns); i++ {
				try(i+1, append(chosen, patterns[i]))
			}
			return
		}
		system := make([][]float64, n)
		for i, p := range pieces {
			for _, pattern := range chosen {
				system[i] = append(system[i], pattern[i])
			}
			system[i] = append(system[i], p.demand+nudge*float64(i+1))
		}
		if x, ok := solve(system); ok {
			sum := 0.0
			for _, v := range x {
				if v < -1e-9 {
					return
				}
				sum += v
			}
			best = min(best, sum)
		}
	}
	try(0, nil)
	return best
}

// solve is Gauss-Jordan with pivoting, on [A|b].
func solve(a [][]float64) ([]float64, bool) {
	n := len(a)
	for col := range n {
		top := col
		for row := col; row < n; row++ {
			if math.Abs(a[row][col]) > math.Abs(a[top][col]) {
				top = row
			}
		}
		if math.Abs(a[top][col]) < 1e-12 {
			return nil, false
		}
		a[col], a[top] = a[top], a[col]
		for row := range n {
			if row == col {
				continue
			}
			f := a[row][col] / a[col][col]
			for k := col; k <= n; k++ {
				a[row][k] -= f * a[col][k]
			}
		}
	}
	x := make([]float64, n)
	for i := range n {
		x[i] = a[i][n] / a[i][i]
	}
	return x, true
}

// TestHoleExamples shows the prices at work: where 810 is asked for most and 160
// fits beside it, the hole beside an 810 is worth nothing, and a GPU with a 160
// on it still nearly a whole one.
func TestHoleExamples(t *testing.T) {
	tables := Build([]Demand{
		{Class{GPUs: 1, Milli: 810}, 1000}, {Class{GPUs: 1, Milli: 160}, 100},
	}, nil)
	if v := tables.value[190]; v > micro/10 {
		t.Errorf("a hole of 190 is worth %d", v)
	}
	if v := tables.value[840]; v < micro*9/10 {
		t.Errorf("a hole of 840 is worth %d", v)
	}
}

// TestEligible: a request that only one model can hold is typed in all but name.
func TestEligible(t *testing.T) {
	tests := []struct {
		name  string
		class Class
		want  ModelSet
	}{
		{"anywhere", Class{GPUs: 1, Milli: 500}, Set(1, 2, 3)},
		{"by wish", Class{GPUs: 1, Milli: 500, Models: Set(2)}, Set(2)},
		{"by count", Class{GPUs: 8, Milli: Whole}, Set(1)},
		{"by cores", Class{GPUs: 1, Milli: Whole, CPU: 80_000}, Set(1)},
		{"by memory", Class{GPUs: 1, Milli: Whole, Memory: 200 * 1024}, Set(1, 2)},
		{"nowhere", Class{GPUs: 1, Milli: Whole, Models: Set(9)}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := eligible(&tt.class, smallFleet()); got != tt.want {
				t.Errorf("got %b, want %b", got, tt.want)
			}
		})
	}
}

// TestLearnerSchedule: tables are due early, then ever later, then regularly.
func TestLearnerSchedule(t *testing.T) {
	tests := []struct {
		name  string
		nodes int
		want  []int
	}{
		{"a thousand nodes", 1213, []int{50, 100, 200, 400, 800, 1600, 3200, 5221, 7242, 9263}},
		{"a few", 10, []int{50, 100, 200, 400, 800, 1600, 3200, 5200, 7200, 9200}},
		{"ten thousand", 12000, []int{50, 100, 200, 400, 800, 1600, 3200, 6400}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l Learner
			var got []int
			for i := 1; i <= 10_000; i++ {
				if l.Observe(&Class{GPUs: 1, Milli: Whole}, tt.nodes) {
					got = append(got, i)
				}
				l.Observe(&Class{CPU: 1}, tt.nodes) // does not count
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %v, want %v", got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Fatalf("got %v, want %v", got, tt.want)
				}
			}
		})
	}
}

// TestLearnerForgets: what was frequent long ago weighs little.
func TestLearnerForgets(t *testing.T) {
	var l Learner
	old, now := Class{GPUs: 1, Milli: 300}, Class{GPUs: 1, Milli: 700}
	for range 5000 {
		l.Observe(&old, 10)
	}
	for range 15_000 {
		l.Observe(&now, 10)
	}
	var counts [2]float64
	for _, d := range l.Demands() {
		if d.Class == old {
			counts[0] = d.Count
		} else {
			counts[1] = d.Count
		}
	}
	if counts[0] > counts[1]/50 {
		t.Errorf("old %v, now %v", counts[0], counts[1])
	}
}
