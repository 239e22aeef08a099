package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"

	"github.com/tangram-dev/tangram/core/pack"
)

// Run replays and reports.
func Run(config Config, out, log io.Writer) error {
	if err := config.complete(); err != nil {
		return inputError(err)
	}
	t, err := ReadTrace(config.Nodes, config.Pods)
	if err != nil {
		return inputError(err)
	}
	if t.Demand() == 0 {
		return Inputf("--pods: %s: no pod asks for a GPU", config.Pods)
	}
	if t.Capacity() == 0 {
		return Inputf("--nodes: %s: no node has a GPU", config.Nodes)
	}
	if len(t.Nodes)*config.Scale > pack.MaxNodes {
		return Inputf("--scale %d: more than %d nodes", config.Scale, pack.MaxNodes)
	}
	if config.Scale > 1 {
		t = t.Times(config.Scale)
	}
	reports, err := simulate(t, &config, newProgress(log))
	if err != nil {
		return err
	}
	if config.HTML != "" {
		if err := writePage(config.HTML, t, &config, reports); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	if config.SVG != "" {
		if err := writeSVG(config.SVG, lostChart(reports)); err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
	}
	if config.JSON {
		return writeJSON(out, reports)
	}
	return writeTable(out, &config, reports)
}

// simulate runs every policy with every seed, one after the other on one core,
// and each first seed once more to see how long deciding takes.
func simulate(t *Trace, config *Config, p *progress) ([]*Report, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	all := float64(len(config.Policies) * (config.Seeds + 1))
	done := 0.0
	var reports []*Report
	for _, policy := range config.Policies {
		var runs []*run
		for s := range config.Seeds + 1 {
			j := &job{trace: t, config: config, policy: policy, seed: config.Seed + uint64(s)}
			if j.bare = s == config.Seeds; j.bare {
				j.seed = config.Seed
			}
			j.tell = func(part float64) { p.show((done+part)/all, "%s, seed %d", policy, j.seed) }
			replay := j.static
			if config.Lifetimes {
				replay = j.timed
			}
			r, err := replay()
			if err != nil {
				return nil, err
			}
			if s > 0 {
				r.end = nil // only the first is shown
			}
			runs = append(runs, r)
			done++
		}
		reports = append(reports, summarize(policy, config, runs[:config.Seeds], runs[config.Seeds]))
	}
	p.clear()
	return reports, nil
}

// writeJSON writes one object for one policy, a list for several.
func writeJSON(w io.Writer, reports []*Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if len(reports) == 1 {
		return e.Encode(reports[0])
	}
	return e.Encode(reports)
}

func writeTable(w io.Writer, config *Config, reports []*Report) error {
	plural := "s"
	if config.Seeds == 1 {
		plural = ""
	}
	fmt.Fprintf(w, "%d seed%s from %d; percent of all GPUs, mean±deviation\n\n", config.Seeds, plural, config.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "policy\tload\tunallocated\tfragmented\tby GPU requests\t")
	if config.Lifetimes {
		fmt.Fprint(t, "wait (lifetimes)\t")
	}
	fmt.Fprintln(t, "decisions/s\tratings/decision")
	for _, r := range reports {
		for _, at := range config.At {
			f := r.At[loadKey(at)]
			fmt.Fprintf(t, "%s\t%s\t%v\t%v\t%v\t", r.Policy, loadKey(at), f.UnallocatedPercent, f.FragPercent, f.FragGPUPercent)
			if f.Wait != nil {
				fmt.Fprintf(t, "%.4f±%.4f\t", f.Wait.Mean, f.Wait.Std)
			}
			fmt.Fprintf(t, "%.0f\t%.1f\n", r.DecisionsPerSecond, r.RatingsPerDecision)
		}
	}
	return t.Flush()
}
