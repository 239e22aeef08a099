package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Report is the whole run, as --json writes it. Times are in milliseconds, and
// CPU is user plus system time of all threads.
type Report struct {
	Started  time.Time `json:"started"`
	Machine  Machine   `json:"machine"`
	Settings Settings  `json:"settings"`
	// Programs maps a program to the version it reports.
	Programs map[string]string `json:"programs"`
	// Summary has one entry per contender: the median of each number over the
	// rounds. Ratios are medians of the ratios of single rounds, because only
	// contenders of one round met the same machine.
	Summary []Result `json:"summary"`
	// Trials has every measurement, in the order in which they ran.
	Trials []Result `json:"trials"`
}

// Machine says where the numbers come from.
type Machine struct {
	CPUs     int    `json:"cpus"`
	CPUModel string `json:"cpuModel,omitempty"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// Settings are the flags that shape the load.
type Settings struct {
	Nodes       int `json:"nodes"`
	GPUsPerNode int `json:"gpusPerNode"`
	Pods        int `json:"pods"`
	GPUsPerPod  int `json:"gpusPerPod"`
	// Gangs of GangSize pods each make up Pods; 0 where pods come alone.
	Gangs      int      `json:"gangs,omitempty"`
	GangSize   int      `json:"gangSize,omitempty"`
	Rate       float64  `json:"ratePodsPerSecond"`
	Contenders []string `json:"contenders"`
	Rounds     int      `json:"rounds"`
	Creators   int      `json:"creators"`
	Binders    int      `json:"binders"`
	WarmupPods int      `json:"warmupPods"`
	MaxNoise   float64  `json:"maxNoise"`
	// Pending pods wait meanwhile; Ask is what is asked, as the flag is written.
	Pending int    `json:"pendingPods,omitempty"`
	Ask     string `json:"ask,omitempty"`
}

// Result is what one contender did in one round, or the median over rounds.
type Result struct {
	Contender string `json:"contender"`
	// Round counts from 1; 0 marks a summary.
	Round int `json:"round,omitempty"`
	// Attempts is how many trials it took to meet a quiet machine; this is the
	// quietest. 0 in a summary.
	Attempts int `json:"attempts,omitempty"`

	Bound int `json:"boundPods"`
	// Locks is how long Tangram's engine held its lock.
	Locks LockTimes `json:"lockTimes,omitempty"`
	// Seconds is from the start of the first create call to the watch event that
	// shows the last pod bound.
	Seconds       float64 `json:"seconds"`
	PodsPerSecond float64 `json:"podsPerSecond"`
	// OfCeiling and OfKubeScheduler are ratios of pods per second in the same
	// round; nil if that contender did not run.
	OfCeiling       *float64 `json:"ofCeiling,omitempty"`
	OfKubeScheduler *float64 `json:"ofKubeScheduler,omitempty"`

	// SchedulerCPU is the contender's own CPU per pod while Seconds ran.
	SchedulerCPU float64 `json:"schedulerCPUmsPerPod"`
	// SchedulerCPUSettled also counts what it did afterwards until it was quiet
	// (late events, garbage), so that deferred work shows.
	SchedulerCPUSettled float64 `json:"schedulerCPUmsPerPodSettled"`
	// ClientCPU and ControlPlaneCPU are those of the load client (this process)
	// and of etcd and kube-apiserver together.
	ClientCPU       float64 `json:"clientCPUmsPerPod"`
	ControlPlaneCPU float64 `json:"controlPlaneCPUmsPerPod"`
	// OtherCPU is the share of the machine, 0 to 1, that processes outside the
	// benchmark took while Seconds ran. A round where it is high measured them.
	OtherCPU float64 `json:"otherCPUShare"`

	// CreateToBound is from the start of a pod's create call to the watch event
	// that shows its node.
	CreateToBound Latency `json:"createToBoundMs"`
	// CreatedPerSecond is the arrival rate that the client reached. Below the
	// wanted rate, latencies are too kind: late pods were not there to wait.
	CreatedPerSecond float64 `json:"createdPodsPerSecond"`
	PeakMemory       float64 `json:"peakMemoryMiB"`
	NodesUsed        int     `json:"nodesUsed"`

	// Gangs is nil where pods come alone.
	Gangs *GangResult `json:"gangs,omitempty"`

	// Asked is what came of questions; nil where none were asked.
	Asked *Asked `json:"asked,omitempty"`

	// Problems are the reasons why this result does not count; none if valid.
	Problems []string `json:"problems,omitempty"`
}

// Valid reports whether the numbers describe a correct schedule of every pod.
func (r *Result) Valid() bool { return len(r.Problems) == 0 }

// addRatios fills the ratios of one round from its own reference contenders. An
// invalid result neither has a ratio nor is a reference.
func addRatios(round []Result) {
	for i := range round {
		if r := &round[i]; r.Valid() {
			r.OfCeiling = ratioTo(round, r.PodsPerSecond, Ceiling)
			r.OfKubeScheduler = ratioTo(round, r.PodsPerSecond, KubeScheduler)
			if r.Asked != nil {
				r.Asked.OfUnasked = ratioTo(round, r.PodsPerSecond, Tangram)
			}
		}
	}
}

func ratioTo(round []Result, rate float64, reference string) *float64 {
	for i := range round {
		if r := &round[i]; r.Contender == reference && r.Valid() && r.PodsPerSecond > 0 {
			ratio := rate / r.PodsPerSecond
			return &ratio
		}
	}
	return nil
}

// summarise takes the median of each number per contender, in the order given.
// Every number has its own median, so a summary need not be one of the rounds.
// Problems are kept, not averaged away: one invalid round makes it invalid.
func summarise(contenders []string, trials []Result) []Result {
	summary := make([]Result, 0, len(contenders))
	for _, name := range contenders {
		var mine []Result
		for _, t := range trials {
			if t.Contender == name {
				mine = append(mine, t)
			}
		}
		if len(mine) > 0 {
			summary = append(summary, medianResult(name, mine))
		}
	}
	return summary
}

func medianResult(name string, trials []Result) Result {
	of := func(field func(*Result) float64) float64 { return medianOf(trials, field) }
	ofRatios := func(field func(*Result) *float64) *float64 {
		var values []float64
		for i := range trials {
			if v := field(&trials[i]); v != nil {
				values = append(values, *v)
			}
		}
		if len(values) == 0 {
			return nil
		}
		m := median(values)
		return &m
	}
	s := Result{
		Contender:           name,
		Bound:               int(of(func(r *Result) float64 { return float64(r.Bound) })),
		Seconds:             of(func(r *Result) float64 { return r.Seconds }),
		PodsPerSecond:       of(func(r *Result) float64 { return r.PodsPerSecond }),
		OfCeiling:           ofRatios(func(r *Result) *float64 { return r.OfCeiling }),
		OfKubeScheduler:     ofRatios(func(r *Result) *float64 { return r.OfKubeScheduler }),
		SchedulerCPU:        of(func(r *Result) float64 { return r.SchedulerCPU }),
		SchedulerCPUSettled: of(func(r *Result) float64 { return r.SchedulerCPUSettled }),
		ClientCPU:           of(func(r *Result) float64 { return r.ClientCPU }),
		ControlPlaneCPU:     of(func(r *Result) float64 { return r.ControlPlaneCPU }),
		OtherCPU:            of(func(r *Result) float64 { return r.OtherCPU }),
		CreateToBound:       medianLatency(trials, func(r *Result) Latency { return r.CreateToBound }),
		CreatedPerSecond:    of(func(r *Result) float64 { return r.CreatedPerSecond }),
		PeakMemory:          of(func(r *Result) float64 { return r.PeakMemory }),
		NodesUsed:           int(of(func(r *Result) float64 { return float64(r.NodesUsed) })),
	}
	s.Gangs, s.Asked = medianGangs(trials), medianAsked(trials)
	for i := range trials {
		for _, p := range trials[i].Problems {
			s.Problems = append(s.Problems, fmt.Sprintf("round %d: %s", trials[i].Round, p))
		}
	}
	return s
}

func medianOf[T any](all []T, field func(*T) float64) float64 {
	values := make([]float64, len(all))
	for i := range all {
		values[i] = field(&all[i])
	}
	return median(values)
}

func medianLatency[T any](all []T, field func(*T) Latency) Latency {
	return Latency{
		P50: medianOf(all, func(t *T) float64 { return field(t).P50 }),
		P95: medianOf(all, func(t *T) float64 { return field(t).P95 }),
		P99: medianOf(all, func(t *T) float64 { return field(t).P99 }),
		Max: medianOf(all, func(t *T) float64 { return field(t).Max }),
	}
}

// writeJSON writes the report to a file, whole or not at all, so that a reader
// never meets half a report.
func (r *Report) writeJSON(file string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	part := file + ".part"
	if err := os.WriteFile(part, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := os.Rename(part, file); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
