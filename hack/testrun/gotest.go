package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxAgain is how many tests of a stage run again: when more fail, it is not by chance.
const maxAgain = 10

// tests runs the tests of a stage, and those that failed once more where that is asked for.
func (r *runner) tests(ctx context.Context, res *result, log io.Writer) error {
	first, err := r.gotest(ctx, res, *res.tests, r.flags, log, res.tests.again)
	if first == nil {
		return err
	}
	res.outcome = *first
	if err := writeTimes(filepath.Join(r.log, res.name+".times"), first.times); err != nil {
		return err
	}
	if len(first.failed) == 0 {
		return err
	}
	_, luck := names(first.failed)
	if !res.tests.again || !luck || len(first.failed) > maxAgain || ctx.Err() != nil {
		for _, f := range first.failed {
			if res.tests.again && f.retry { // not shown yet
				r.showFailure(res.out, f)
			}
		}
		return errTests
	}
	res.outcome.failed = nil
	by := map[string][]failed{}
	for _, f := range first.failed {
		by[f.pkg] = append(by[f.pkg], f)
	}
	for _, pkg := range slices.Sorted(maps.Keys(by)) {
		again := *res.tests
		again.packages, again.except = []string{pkg}, ""
		again.only, _ = names(by[pkg])
		fmt.Fprintf(res.out, "again  %s %s\n", short(pkg), again.only)
		second, err := r.gotest(ctx, res, again, withoutRun(r.flags), log, false)
		if second == nil {
			return err
		}
		res.outcome.passed += second.passed
		res.outcome.failed = append(res.outcome.failed, second.failed...)
		for _, f := range by[pkg] {
			if !slices.ContainsFunc(second.failed, func(g failed) bool { return g.key == f.key || g.test == "" }) {
				res.flaky = append(res.flaky, f)
			}
		}
	}
	if len(res.outcome.failed) > 0 {
		return errTests
	}
	return nil
}

// gotest runs go test once. hold: failures that may be by chance get one line, until they
// have failed again. An error is what go test said beyond its tests.
func (r *runner) gotest(ctx context.Context, res *result, t tests, flags []string, log io.Writer, hold bool) (*outcome, error) {
	args := []string{"test", "-json", "-vet=off"} // lint has vetted all
	if t.cluster {
		args = append(args, "-count=1")
	}
	if os.Getenv("CI") != "" {
		// A shuffled run is never taken from the cache; a person gains more from the cache.
		args = append(args, "-shuffle=on")
	}
	args = append(args, t.flags...)
	if t.only != "" {
		args = append(args, "-run=^("+t.only+")$")
	}
	if t.except != "" {
		args = append(args, "-skip=^("+t.except+")$")
	}
	race := t.race && r.noRace == ""
	if race {
		args = append(args, "-race")
	}
	args = append(args, t.packages...)
	args = append(args, flags...) // at the end: a test's own flags may be among them

	name := "go"
	if nice, err := exec.LookPath("nice"); err == nil && !t.cluster {
		// Beside tests on clusters, which have limits of time.
		name, args = nice, append([]string{"-n", "5", "go"}, args...)
	}
	cmd := command(ctx, name, args...)
	if race {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	show := &console{r: r, out: res.out, log: log, hold: hold, verbose: slices.Contains(flags, "-v"), runs: map[key]bool{}, last: time.Now()}
	var stderr strings.Builder
	cmd.Stderr = io.MultiWriter(log, &stderr)
	fmt.Fprintf(log, "go %s\n", strings.Join(args, " "))
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	beat := show.beat()
	out, err := read(stdout, show)
	close(beat)
	failure := cmd.Wait()
	show.end(out)
	if err != nil {
		return nil, fmt.Errorf("read the output of go test: %w", err)
	}
	if failure != nil && len(out.failed) == 0 {
		return out, fmt.Errorf("go test: %w: %s", failure, cmp.Or(strings.TrimSpace(stderr.String()), "see the log"))
	}
	return out, nil
}

// withoutRun is flags of go test without -run.
func withoutRun(flags []string) []string {
	var out []string
	for i := 0; i < len(flags); i++ {
		switch name := strings.TrimLeft(flags[i], "-"); {
		case name == "run":
			i++
		case strings.HasPrefix(name, "run="):
		default:
			out = append(out, flags[i])
		}
	}
	return out
}

// writeTimes writes how long tests took, longest first.
func writeTimes(name string, times map[key]time.Duration) error {
	keys := slices.SortedFunc(maps.Keys(times), func(a, b key) int {
		return cmp.Or(cmp.Compare(times[b], times[a]), strings.Compare(a.String(), b.String()))
	})
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "%8.2f  %s\n", times[k].Seconds(), k)
	}
	return os.WriteFile(name, []byte(b.String()), 0o600)
}
