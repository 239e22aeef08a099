package sim

import (
	"math"
	"slices"
	"time"
)

// QueueReport is the outcome of one policy. Its JSON form is documented in
// docs/guides/simulate-queue.md.
type QueueReport struct {
	Policy   string `json:"policy"`
	Runtimes string `json:"runtimes"`
	GPUs     int    `json:"gpus"`
	Jobs     int    `json:"jobs"`
	// Rejected jobs are larger than the cluster. They count nowhere else.
	Rejected int `json:"rejected"`
	// All is over all jobs, BySize over those of one size class.
	All    Times            `json:"all"`
	BySize map[string]Times `json:"bySize"`
	// MakespanSeconds is from the first submission to the last end.
	MakespanSeconds float64 `json:"makespanSeconds"`
	// Utilization is useful GPU time, percent of all: over the makespan, and over
	// the moments in which jobs wanted more GPUs than there are.
	UtilizationPercent          float64 `json:"utilizationPercent"`
	ContendedUtilizationPercent float64 `json:"contendedUtilizationPercent"`
	ContendedSeconds            float64 `json:"contendedSeconds"`
	// Jain is Jain's index over the satisfaction of queues (see fairMeter).
	Jain         float64            `json:"jain"`
	Satisfaction map[string]float64 `json:"satisfaction"`
	// FinishTimeFairness is over jobs: completion time over that in a cluster of the
	// queue's own (see idealTimes). Below 1 sharing pays.
	FinishTimeFairness Rho     `json:"finishTimeFairness"`
	Preemptions        int     `json:"preemptions"`
	LostGPUHours       float64 `json:"lostGPUHours"`
	GangViolations     int     `json:"gangViolations"`
	Decisions          int     `json:"decisions"`
	DecisionsPerSecond float64 `json:"decisionsPerSecond"`
	WallSeconds        float64 `json:"wallSeconds"`

	curve  []moment
	delays []float64 // sorted, seconds
}

// Times are in seconds.
type Times struct {
	Jobs int `json:"jobs"`
	// Completion is from submission to end, Delay the part of it in which the job did
	// not run.
	Completion Spread `json:"jobCompletionSeconds"`
	Delay      Spread `json:"queueingDelaySeconds"`
}

// Spread is a mean and percentiles (nearest rank).
type Spread struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
}

// Rho is finish-time fairness over jobs.
type Rho struct {
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
	// WorsePercent is the jobs for which a cluster of their queue's own is better.
	WorsePercent float64 `json:"worsePercent"`
}

// sizeClass is jobs of similar numbers of GPUs.
type sizeClass struct {
	name string
	most int
}

var sizeClasses = []sizeClass{{"1", 1}, {"2-4", 4}, {"5-8", 8}, {"9-16", 16}, {"17+", math.MaxInt}}

// newSpread sorts values.
func newSpread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	rank := func(percent int) float64 { return values[(len(values)*percent+99)/100-1] }
	return Spread{round(sum / float64(len(values))), rank(50), rank(95), rank(99)}
}

// summary puts together what a run measured.
func (r *queueRun) summary(name string, wall time.Duration) *QueueReport {
	out := &QueueReport{
		Policy: name, Runtimes: r.config.Runtimes, GPUs: r.config.GPUs, Jobs: len(r.jobs), Rejected: r.rejected,
		BySize: map[string]Times{}, Satisfaction: map[string]float64{},
		Preemptions: r.preemptions, LostGPUHours: round(float64(r.lost) / float64(time.Hour)),
		GangViolations: r.witness.bad, Decisions: r.decisions, WallSeconds: round(wall.Seconds()), curve: r.curve,
	}
	seconds := func(t int64) float64 { return float64(t) / float64(time.Second) }
	completion, delay := make([][]float64, len(sizeClasses)), make([][]float64, len(sizeClasses))
	var work float64
	last := int64(0)
	for i := range r.jobs {
		o, j := &r.outcomes[i], &r.jobs[i]
		if o.end < 0 {
			continue
		}
		c := slices.IndexFunc(sizeClasses, func(s sizeClass) bool { return j.GPUs <= s.most })
		completion[c] = append(completion[c], seconds(o.end-j.Submitted))
		delay[c] = append(delay[c], seconds(o.end-j.Submitted-j.Duration-o.ran))
		work += seconds(j.Duration) * float64(j.GPUs)
		last = max(last, o.end)
	}
	for c, s := range sizeClasses {
		if len(delay[c]) > 0 {
			out.BySize[s.name] = Times{len(delay[c]), newSpread(completion[c]), newSpread(delay[c])}
		}
	}
	out.delays = slices.Concat(delay...)
	out.All = Times{len(out.delays), newSpread(slices.Concat(completion...)), newSpread(out.delays)}
	out.MakespanSeconds = seconds(last)
	if last > 0 {
		out.UtilizationPercent = round(100 * work / (seconds(last) * float64(r.config.GPUs)))
	}
	r.fairness(out)
	if s := r.spent.Seconds(); s > 0 {
		out.DecisionsPerSecond = math.Round(float64(r.decisions) / s)
	}
	return out
}

func (r *queueRun) fairness(out *QueueReport) {
	m := r.fair
	if m.contended > 0 {
		out.ContendedSeconds = float64(m.contended) / float64(time.Second)
		out.ContendedUtilizationPercent = round(100 * m.contendedUse / (float64(m.contended) * float64(m.gpus)))
	}
	satisfaction := m.satisfaction()
	out.Jain = round(jain(satisfaction))
	for q, s := range satisfaction {
		if s >= 0 {
			out.Satisfaction[m.queues[q]] = round(s)
		}
	}
	ideal := idealTimes(r.jobs, r.config.GPUs)
	sum, count, worse := 0.0, 0, 0
	for i := range r.jobs {
		if r.outcomes[i].end < 0 {
			continue
		}
		rho := float64(r.outcomes[i].end-r.jobs[i].Submitted) / ideal[i]
		sum += rho
		count++
		if rho > 1.000001 {
			worse++
		}
		out.FinishTimeFairness.Max = max(out.FinishTimeFairness.Max, round(rho))
	}
	if count > 0 {
		out.FinishTimeFairness.Mean = round(sum / float64(count))
		out.FinishTimeFairness.WorsePercent = round(100 * float64(worse) / float64(count))
	}
}
