package arbiter

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func drawParts(t *rapid.T) (int64, []portion) {
	limit := rapid.SampledFrom([]int64{10, 1000, 1 << 44}).Draw(t, "limit")
	parts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) portion {
		low := rapid.Int64Range(0, limit/4).Draw(t, "low")
		return portion{
			weight: rapid.Int64Range(1, 10).Draw(t, "weight"),
			low:    low,
			high:   rapid.Int64Range(low, limit).Draw(t, "high"),
		}
	}), 1, 8).Draw(t, "parts")
	return rapid.Int64Range(0, 2*limit).Draw(t, "amount"), parts
}

// naive finds the level by bisection, in floats.
func naive(amount int64, parts []portion) []float64 {
	at := func(level float64) ([]float64, float64) {
		got, sum := make([]float64, len(parts)), 0.0
		for i, p := range parts {
			got[i] = min(max(float64(p.weight)*level, float64(p.low)), float64(p.high))
			sum += got[i]
		}
		return got, sum
	}
	low, high := 0.0, math.Ldexp(1, 60)
	for range 200 {
		if mid := (low + high) / 2; mid > 0 {
			if _, sum := at(mid); sum <= float64(amount) {
				low = mid
			} else {
				high = mid
			}
		}
	}
	got, _ := at(low)
	return got
}

// TestDivideAgainstNaive: within one unit of the real solution, which whole
// numbers cannot always reach.
func TestDivideAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount, parts := drawParts(t)
		var lows int64
		for _, p := range parts {
			lows += p.low
		}
		if lows > amount {
			t.Skip("the lows are divided: see TestDivideIsFair")
		}
		want := naive(amount, parts)
		divide(amount, parts)
		for i, p := range parts {
			if math.Abs(float64(p.got)-want[i]) > 1.001 {
				t.Fatalf("part %d got %d, want %f", i, p.got, want[i])
			}
		}
	})
}

// TestDivideIsFair checks the definition of max-min fairness: no part between low
// and high could get one more from a part that has more per weight and is above
// its low. Also that all is given out, and no more.
func TestDivideIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount, parts := drawParts(t)
		before := append([]portion(nil), parts...)
		divide(amount, parts)
		var lows, highs, sum int64
		for i, p := range parts {
			lows += before[i].low
			highs += before[i].high
			sum += p.got
		}
		if want := min(amount, highs); sum != want {
			t.Fatalf("gave %d of %d, wanted %d", sum, amount, highs)
		}
		poor := lows > amount
		for i, p := range parts {
			low, high := before[i].low, before[i].high
			if poor {
				low, high = 0, low
			}
			if p.got < low || p.got > high {
				t.Fatalf("part %d got %d, outside %d..%d", i, p.got, low, high)
			}
			for j, q := range parts {
				// j gives one to i: a gain only if i is then still not above j.
				qlow := before[j].low
				if poor {
					qlow = 0
				}
				after := new(big.Int).Mul(big.NewInt(p.got+1), big.NewInt(q.weight))
				then := new(big.Int).Mul(big.NewInt(q.got-1), big.NewInt(p.weight))
				if i != j && p.got < high && q.got > qlow && after.Cmp(then) < 0 {
					t.Fatalf("part %d has %d at weight %d, part %d has %d at weight %d", i, p.got, p.weight, j, q.got, q.weight)
				}
			}
		}
	})
}

func TestDivide(t *testing.T) {
	tests := []struct {
		name   string
		amount int64
		parts  []portion
		want   []int64
	}{
		{"by weight", 100, []portion{{weight: 1, high: 100}, {weight: 3, high: 100}}, []int64{25, 75}},
		{"what one does not want", 100, []portion{{weight: 1, high: 10}, {weight: 1, high: 100}, {weight: 1, high: 100}}, []int64{10, 45, 45}},
		{"a floor", 100, []portion{{weight: 1, low: 60, high: 60}, {weight: 1, high: 100}, {weight: 1, high: 100}}, []int64{60, 20, 20}},
		{"a remainder", 8, []portion{{weight: 1, high: 8}, {weight: 1, high: 8}, {weight: 1, high: 8}}, []int64{3, 3, 2}},
		{"enough", 100, []portion{{weight: 1, high: 30}, {weight: 9, high: 30}}, []int64{30, 30}},
		{"floors beyond the amount", 10, []portion{{weight: 1, low: 10, high: 10}, {weight: 1, low: 10, high: 50}}, []int64{5, 5}},
		{"nothing", 0, []portion{{weight: 1, high: 8}}, []int64{0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			divide(tt.amount, tt.parts)
			for i, p := range tt.parts {
				if p.got != tt.want[i] {
					t.Errorf("part %d got %d, want %d", i, p.got, tt.want[i])
				}
			}
		})
	}
}

// TestWide compares with math/big.
func TestWide(t *testing.T) {
	amount := rapid.Int64Range(0, math.MaxInt64)
	big3 := func(a, b, c int64) *big.Int {
		x := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		return x.Mul(x, big.NewInt(c))
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := amount.Draw(t, "a"), amount.Draw(t, "b"), amount.Draw(t, "c")
		d := amount.Draw(t, "d")
		if got, want := product(a, b, c).compare(product(b, c, d)), big3(a, b, c).Cmp(big3(b, c, d)); got != want {
			t.Fatalf("compares as %d, want %d", got, want)
		}
		sum := times(a, b).plus(times(c, d))
		want := new(big.Int).Add(big3(a, b, 1), big3(c, d, 1))
		got := new(big.Int).SetUint64(sum.high)
		if got.Lsh(got, 64).Add(got, new(big.Int).SetUint64(sum.low)).Cmp(want) != 0 {
			t.Fatalf("sum %v, want %v", got, want)
		}
		if got, want := times(a, b).compare(times(c, d)), big3(a, b, 1).Cmp(big3(c, d, 1)); got != want {
			t.Fatalf("compares as %d, want %d", got, want)
		}
	})
}
