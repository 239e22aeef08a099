package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// table is the end of a run: a row for each stage, below it what was skipped, flaky or
// failed in it, and a last line that says whether the run passed.
func table(results []result, total time.Duration) (text string, ok bool) {
	var b strings.Builder
	var passed, skips, failures int
	ok = true
	row := func(name, state, took, tests string) {
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%-10s %-8s %7s %7s", name, state, took, tests), " "))
	}
	note := func(kind, format string, args ...any) {
		fmt.Fprintf(&b, "  %-8s %s\n", kind, cut(fmt.Sprintf(format, args...)))
	}
	row("stage", "result", "time", "tests")
	for _, r := range results {
		passed += r.outcome.passed
		skips += len(r.outcome.skipped)
		failures += len(r.outcome.failed)
		ok = ok && r.passed
		switch {
		case r.notRun != "":
			row(r.name, "not run", "", "")
			note("because", "%s", r.notRun)
			continue
		case r.passed:
			row(r.name, "passed", clock(r.took), r.count())
		default:
			row(r.name, "failed", clock(r.took), r.count())
		}
		for _, n := range r.notes {
			note("note", "%s", n)
		}
		for _, s := range bySkip(r.outcome.skipped) {
			note("skipped", "%s", s)
		}
		for _, f := range r.flaky {
			note("flaky", "%s passed when run again; at first: %s", f.key, f.cause)
		}
		for _, f := range r.outcome.failed {
			note("failed", "%s: %s", f.key, f.cause)
		}
	}
	word := "passed"
	if !ok {
		word = "failed"
	}
	row("total", word, clock(total), "")
	// A run can fail without a failed test: by a linter or a build.
	fmt.Fprintf(&b, "%s: %d passed, %d failed, %d skipped\n", word, passed, failures, skips)
	return b.String(), ok
}

// count is the number of tests of a stage, or nothing.
func (r result) count() string {
	n := r.outcome.passed + len(r.outcome.skipped) + len(r.outcome.failed)
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// bySkip are the reasons of skipped tests, each once: with the test, or with the number of
// tests that gave it.
func bySkip(list []skipped) []string {
	tests := map[string][]skipped{}
	for _, s := range list {
		tests[s.why] = append(tests[s.why], s)
	}
	var out []string
	for _, why := range slices.Sorted(maps.Keys(tests)) {
		if of := tests[why]; len(of) == 1 {
			out = append(out, fmt.Sprintf("%s: %s", of[0].key, why))
		} else {
			out = append(out, fmt.Sprintf("%d tests of %s: %s", len(of), short(of[0].pkg), why))
		}
	}
	return out
}

// clock is a duration as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// cut shortens a line.
func cut(line string) string {
	const most = 240
	if r := []rune(line); len(r) > most {
		return string(r[:most]) + "..."
	}
	return line
}
