package bench

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Latency is a distribution of create-to-bound times in milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// latencyOf summarises times; it sorts its argument. No times give zeros.
func latencyOf(times []time.Duration) Latency {
	slices.Sort(times)
	return Latency{
		P50: milliseconds(percentile(times, 50)),
		P95: milliseconds(percentile(times, 95)),
		P99: milliseconds(percentile(times, 99)),
		Max: milliseconds(percentile(times, 100)),
	}
}

// percentile is the nearest-rank percentile of sorted: the smallest value such
// that at least p per cent of all values are not above it. It never invents a
// value between two that were measured. p is in (0, 100].
func percentile[T cmp.Ordered](sorted []T, p float64) T {
	if len(sorted) == 0 {
		var none T
		return none
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// median is the middle value, or the mean of the two middle values. No values
// give zero. The argument is not changed.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
