package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// runner runs stages.
type runner struct {
	mu    sync.Mutex // of out
	out   io.Writer
	flags []string // of go test, behind the stages' own
	log   string   // the folder of whole outputs
	// noRace says why there is no race detector; empty when there is one.
	noRace string
}

// result is what became of a stage.
type result struct {
	stage
	out     *lines
	passed  bool
	notRun  string // why; empty when it ran
	took    time.Duration
	outcome outcome
	flaky   []failed // by what they said at first
	notes   []string
}

// errTests: tests failed, which the table has by name.
var errTests = errors.New("tests failed")

// prepare sets what all stages share: one setting for builds, linters and tests, so that
// they share Go's cache. Only the race detector needs cgo.
func (r *runner) prepare() error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := os.Stat("go.mod"); err != nil {
		return fmt.Errorf("run it in the root of the repository: %w", err)
	}
	settings := map[string]string{
		"CGO_ENABLED": "0",
		"TANGRAM_BIN": filepath.Join(root, "bin"), // where tests find programs
		// Tests, and what they build and start, collect garbage less often than Go does by
		// itself: most of it lives for seconds, and an eighth of all processor time went there.
		"GOGC": cmp.Or(os.Getenv("GOGC"), "400"),
		// The race detector sleeps for a second at the end of every package, for goroutines that
		// still run then; a twentieth shows them, too.
		"GORACE": cmp.Or(os.Getenv("GORACE"), "atexit_sleep_ms=50"),
	}
	for name, value := range settings {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	cc, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		return fmt.Errorf("go env CC: %w", err)
	}
	words := strings.Fields(string(cc))
	if len(words) == 0 {
		words = []string{"cc"}
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		r.noRace = "without the race detector: there is no C compiler (" + words[0] + ")"
	}
	return os.MkdirAll(r.log, 0o755)
}

// all runs stages: those of a lane one after the other, lanes at the same time, and a stage
// without a lane alone. A stage that fails keeps those from running that need it; lint and
// build keep all others from running.
func (r *runner) all(ctx context.Context, list []stage) []result {
	out := make([]result, len(list))
	ended := make([]chan struct{}, len(list))
	var running sync.WaitGroup
	for i, s := range list {
		ended[i] = make(chan struct{})
		running.Go(func() {
			defer close(ended[i])
			why := ""
			for j, before := range list[:i] {
				needed := slices.Contains(s.needs, before.name) || before.name == "lint" || before.name == "build"
				if s.lane != "" && before.lane != "" && s.lane != before.lane && !needed {
					continue
				}
				<-ended[j]
				if needed && !out[j].passed {
					why = before.name + " failed"
				}
			}
			if ctx.Err() != nil {
				why = "interrupted"
			}
			out[i] = r.one(ctx, s, why)
		})
	}
	running.Wait()
	return out
}

// one runs a stage, unless there is a reason not to.
func (r *runner) one(ctx context.Context, s stage, notRun string) result {
	res := result{stage: s, notRun: notRun, out: &lines{r: r, name: s.name}}
	if notRun != "" {
		return res
	}
	fmt.Fprintf(res.out, "== %s\n", s.about)
	start := time.Now()
	err := r.stage(ctx, &res)
	res.took = time.Since(start)
	res.passed = err == nil
	if err != nil && !errors.Is(err, errTests) {
		res.notes = append(res.notes, err.Error())
	}
	word := "passed"
	if err != nil {
		word = "failed"
	}
	fmt.Fprintf(res.out, "== %s in %s\n", word, clock(res.took))
	return res
}

// stage runs one stage. The error says what failed beyond its tests.
func (r *runner) stage(ctx context.Context, res *result) error {
	log, err := os.Create(filepath.Join(r.log, res.name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	for _, c := range res.commands {
		cmd := command(ctx, c[0], c[1:]...)
		cmd.Stdout = io.MultiWriter(res.out, log)
		cmd.Stderr = cmd.Stdout
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(c, " "), err)
		}
	}
	if res.tests == nil {
		return nil
	}
	if res.tests.race && r.noRace != "" {
		res.notes = append(res.notes, r.noRace)
	}
	return r.tests(ctx, res, log)
}

// command is a command that is interrupted, and given some time, when the context ends.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}
