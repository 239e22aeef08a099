package bench

import (
	"testing"
	"time"
)

func TestPercentileIsNearestRank(t *testing.T) {
	ten := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for _, tc := range []struct {
		name   string
		values []int
		p      float64
		want   int
	}{
		{"nothing", nil, 50, 0},
		{"one value is every percentile", []int{7}, 1, 7},
		{"median of an even number is the lower middle", ten, 50, 5},
		{"just above half", ten, 50.1, 6},
		{"p95 of ten is the last", ten, 95, 10},
		{"p90 of ten is the ninth", ten, 90, 9},
		{"maximum", ten, 100, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := percentile(tc.values, tc.p); got != tc.want {
				t.Errorf("percentile(%v, %v) = %d, want %d", tc.values, tc.p, got, tc.want)
			}
		})
	}
}

func TestLatencySortsAndConverts(t *testing.T) {
	var times []time.Duration
	for ms := 100; ms >= 1; ms-- {
		times = append(times, time.Duration(ms)*time.Millisecond)
	}
	want := Latency{P50: 50, P95: 95, P99: 99, Max: 100}
	if got := latencyOf(times); got != want {
		t.Errorf("latencyOf(1..100 ms) = %+v, want %+v", got, want)
	}
}

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"nothing", nil, 0},
		{"one", []float64{3}, 3},
		{"odd, unsorted", []float64{9, 1, 5}, 5},
		{"even", []float64{4, 1, 2, 3}, 2.5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := median(tc.values); got != tc.want {
				t.Errorf("median(%v) = %v, want %v", tc.values, got, tc.want)
			}
		})
	}
}
