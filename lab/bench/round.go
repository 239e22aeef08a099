package bench

import (
	"context"
)

// maxAttempts is how often one contender may run in one round to meet a quiet
// machine.
const maxAttempts = 3

// roundRun lets every contender run once.
type roundRun struct {
	config *Config
	// number counts from 1.
	number   int
	progress *progress
	// try runs one trial. Attempts count from 1.
	try func(ctx context.Context, c contender, attempt int) (Result, error)
}

// run returns a result per contender, ratios included, in the order in which they ran.
// Each round starts with another one, so that going first or last (a cold page cache, a
// warm CPU) favours no contender. A contender that fails is reported as invalid and
// does not keep the others from running; only the end of ctx does.
func (r *roundRun) run(ctx context.Context) ([]Result, error) {
	var results []Result
	names := r.config.Contenders
	for i := range names {
		c, _ := contenderByName(names[(i+r.number-1)%len(names)])
		result, err := r.quietest(ctx, c)
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	addRatios(results)
	return results, nil
}

// quietest runs a trial, and again while other processes disturb it; of several, the
// least disturbed counts. The choice depends on nothing that the contender does, so it
// is fair. A wrong result always counts.
func (r *roundRun) quietest(ctx context.Context, c contender) (Result, error) {
	var best Result
	for attempt := 1; ; attempt++ {
		result, err := r.try(ctx, c, attempt)
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		if err != nil {
			result = Result{Contender: c.name, Round: r.number, Problems: []string{err.Error()}}
		}
		if attempt == 1 || !result.Valid() || result.OtherCPU < best.OtherCPU {
			best = result
		}
		best.Attempts = attempt
		switch {
		case !result.Valid():
			r.progress.phase("INVALID: %s", result.Problems[0])
			return best, nil
		case result.OtherCPU <= r.config.MaxNoise || attempt == maxAttempts:
			return best, nil
		}
		r.progress.phase("other processes took %.0f%% of the machine: once more", 100*result.OtherCPU)
	}
}
