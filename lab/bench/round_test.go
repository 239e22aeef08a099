package bench

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
)

func TestRoundsStartWithAnotherContender(t *testing.T) {
	config := DefaultConfig()
	for number, want := range map[int][]string{
		1: {Ceiling, KubeScheduler, Tangram},
		2: {KubeScheduler, Tangram, Ceiling},
		3: {Tangram, Ceiling, KubeScheduler},
		4: {Ceiling, KubeScheduler, Tangram},
	} {
		var got []string
		r := roundRun{
			config: &config, number: number, progress: newProgress(io.Discard),
			try: func(_ context.Context, c contender, _ int) (Result, error) {
				got = append(got, c.name)
				return Result{Contender: c.name}, nil
			},
		}
		if _, err := r.run(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("round %d ran %v, %v, want %v", number, got, err, want)
		}
	}
}

func TestNoisyTrialIsRepeated(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		name     string
		noise    []float64 // of each attempt; negative for a failure
		wantRate float64   // the attempt that counts
		wantRuns int
	}{
		{"quiet at once", []float64{0.01}, 1, 1},
		{"quiet at the second", []float64{0.5, 0.02}, 2, 2},
		{"never quiet: the quietest counts", []float64{0.5, 0.2, 0.3}, 2, 3},
		{"a failure counts after any earlier attempts", []float64{0.2, -1}, 0, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := DefaultConfig()
			config.Contenders = []string{Ceiling}
			r := roundRun{
				config: &config, number: 1, progress: newProgress(io.Discard),
				try: func(_ context.Context, c contender, attempt int) (Result, error) {
					noise := tc.noise[attempt-1]
					if noise < 0 {
						return Result{}, broken
					}
					return Result{Contender: c.name, PodsPerSecond: float64(attempt), OtherCPU: noise}, nil
				},
			}
			results, err := r.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := results[0]
			if got.PodsPerSecond != tc.wantRate || got.Attempts != tc.wantRuns || got.Valid() != (tc.wantRate > 0) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestInterruptEndsTheRound(t *testing.T) {
	config := DefaultConfig()
	ctx, cancel := context.WithCancel(t.Context())
	r := roundRun{
		config: &config, number: 1, progress: newProgress(io.Discard),
		try: func(context.Context, contender, int) (Result, error) {
			cancel()
			return Result{}, context.Canceled
		},
	}
	if results, err := r.run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", results, err)
	}
}
