package sim

import (
	"fmt"
	"math"
	"strconv"
)

// PackReport is the outcome of one policy. Its JSON form is documented in
// docs/packing.md.
type PackReport struct {
	Policy             string             `json:"policy"`
	Workload           string             `json:"workload,omitempty"`
	Seeds              int                `json:"seeds"`
	At                 map[string]Figures `json:"at"`
	DecisionsPerSecond float64            `json:"decisionsPerSecond"`
	// RatingsPerDecision is the work per decision, on any machine: how many different
	// nodes were judged. 0 for random, which looks at all.
	RatingsPerDecision float64 `json:"ratingsPerDecision,omitempty"`

	curve []sample // mean over seeds
	last  *packRun // of the first seed
}

// Figures is what was measured at one load.
type Figures struct {
	UnallocatedPercent Stat  `json:"unallocatedPercent"`
	FragPercent        Stat  `json:"fragPercent"`
	FragGPUPercent     Stat  `json:"fragGPUPercent"`
	Wait               *Stat `json:"waitLifetimes,omitempty"`
}

// Stat is a mean over seeds and the population deviation, as published.
type Stat struct {
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
}

func (s Stat) String() string { return fmt.Sprintf("%.2f±%.2f", s.Mean, s.Std) }

func newStat(values []float64) Stat {
	n := float64(len(values))
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	mean, square := sum/n, 0.0
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	return Stat{round(mean), round(math.Sqrt(square / n))}
}

// round keeps six digits after the point: more is noise of the summation.
func round(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// loadKey is a load as a key: at least one digit after the point, as in "1.0".
func loadKey(load float64) string {
	s := strconv.FormatFloat(load, 'f', -1, 64)
	if load == math.Trunc(load) {
		s += ".0"
	}
	return s
}

// summarize puts the runs of one policy together; bare is the one that was timed.
func summarize(policy string, config *PackConfig, runs []*packRun, bare *packRun) *PackReport {
	r := &PackReport{Policy: policy, Seeds: len(runs), At: map[string]Figures{}, last: runs[0]}
	if policy == "tangram" {
		r.Workload = config.Workload
	}
	over := func(value func(*packRun) float64) Stat {
		values := make([]float64, len(runs))
		for i, run := range runs {
			values[i] = value(run)
		}
		return newStat(values)
	}
	for i, at := range config.At {
		f := Figures{
			UnallocatedPercent: over(func(r *packRun) float64 { return r.at[i].unallocated }),
			FragPercent:        over(func(r *packRun) float64 { return r.at[i].frag }),
			FragGPUPercent:     over(func(r *packRun) float64 { return r.at[i].fragGPU }),
		}
		if config.Lifetimes {
			wait := over(func(r *packRun) float64 { return r.wait[i] })
			f.Wait = &wait
		}
		r.At[loadKey(at)] = f
	}
	for i := range runs[0].curve {
		r.curve = append(r.curve, sample{
			over(func(r *packRun) float64 { return r.curve[i].unallocated }).Mean,
			over(func(r *packRun) float64 { return r.curve[i].frag }).Mean,
			over(func(r *packRun) float64 { return r.curve[i].fragGPU }).Mean,
		})
	}
	if seconds := bare.spent.Seconds(); seconds > 0 {
		r.DecisionsPerSecond = math.Round(float64(bare.decisions) / seconds)
	}
	if bare.decisions > 0 {
		r.RatingsPerDecision = math.Round(10*float64(bare.ratings)/float64(bare.decisions)) / 10
	}
	return r
}
