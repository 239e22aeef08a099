// Command testrun runs the stages of the tests and ends in one table: what ran, how long it took, what was skipped and why, and which tests were flaky. Its last
// line begins with "passed:" or "failed:".
//
//	testrun [-list] STAGE|SET... [-- ARGUMENTS OF GO TEST]
//
// The stages and sets are in stages.go; a stage brings those that it needs. Arguments behind
// -- go to every go test.
//
// The console shows packages that took a while and tests that failed. The whole output of a
// stage is in bin/log/STAGE.log, the times of its tests, longest first, in
// bin/log/STAGE.times.
//
// A test on a cluster that fails runs once more by itself, after its stage. If it passes
// then, it is flaky: the table says so, and the run does not fail.
//
// Read stages.go, run.go, gotest.go (the tests of a stage), events.go (what go test reports),
// console.go (what is shown meanwhile), table.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	var flags []string
	if i := slices.Index(args, "--"); i >= 0 {
		args, flags = args[:i], args[i+1:]
	}
	if slices.Equal(args, []string{"-list"}) {
		list(os.Stdout)
		return 0
	}
	stages, err := choose(args, flags)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &runner{out: os.Stdout, flags: flags, log: "bin/log"}
	if err := r.prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		return 2
	}
	start := time.Now()
	results := r.all(ctx, stages)
	text, ok := table(results, time.Since(start))
	fmt.Print("\n" + text)
	if err := summarize(text); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
	if !ok {
		return 1
	}
	return 0
}

// summarize adds the table to the page of a GitHub workflow's run, where there is one.
func summarize(text string) error {
	name := os.Getenv("GITHUB_STEP_SUMMARY")
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "```\n%s```\n", text)
	return errors.Join(err, f.Close())
}
