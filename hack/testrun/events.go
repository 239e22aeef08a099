package main

import (
	"bufio"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is one line of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of what is built
	// FailedBuild is the import path of what did not build.
	FailedBuild string
	Test        string
	Elapsed     float64 // seconds
	Output      string
}

// key names a test of a package; test is empty for what belongs to the package itself.
type key struct{ pkg, test string }

// top is the test without its subtests.
func (k key) top() key {
	name, _, _ := strings.Cut(k.test, "/")
	return key{k.pkg, name}
}

func (k key) String() string { return strings.TrimSpace(short(k.pkg) + " " + k.test) }

// short is a package's folder in this repository.
func short(pkg string) string { return strings.TrimPrefix(pkg, "github.com/tangram-dev/tangram/") }

// skipped is one test that did not run, and why.
type skipped struct {
	key
	why string
}

// failed is one top-level test that failed, or a package that did not get so far as to name
// one.
type failed struct {
	key
	cause  string
	output []string
	// retry: the same test may pass when it runs again. A build that fails, a panic, a time
	// limit and a data race are no matter of luck.
	retry bool
}

// outcome is what one go test came to.
type outcome struct {
	passed   int // tests, subtests included
	skipped  []skipped
	failed   []failed
	times    map[key]time.Duration // of top-level tests
	packages map[string]*state
}

// observer is told what happens while events are read.
type observer interface {
	// running: a test began or ended.
	running(k key, now bool)
	// says: text that tests and builds print.
	says(k key, text string)
	// testFails: a top-level test failed; its package goes on.
	testFails(f failed)
	packageEnds(pkg string, p *state, took time.Duration)
}

// state is what is known of one package while it runs.
type state struct {
	output map[string][]string // by top-level test, and of the package itself
	said   map[string]string   // the last message of each test, without its place
	failed []failed
	tests  int
	cached bool // the result is from Go's cache
}

var (
	// broken begins the lines of a process that ended by itself, or by its time limit.
	broken = regexp.MustCompile(`^(panic: |fatal error: |signal: |SIG[A-Z]+: )`)
	raced  = regexp.MustCompile(`race detected during execution of test|WARNING: DATA RACE`)
	// located is a line in which a test says what is wrong.
	located = regexp.MustCompile(`^ *[a-z0-9_]+\.go:[0-9]+: `)
	// something is any line but the head of a compiler's messages.
	something = regexp.MustCompile(`^\s*[^#\s]`)
	// titled is a located line that is only the title of a log below it.
	titled = regexp.MustCompile(`\.go:[0-9]+: [a-z-]+:$`)
)

// read follows the events of a go test to their end.
func read(r io.Reader, o observer) (*outcome, error) {
	out := &outcome{times: map[key]time.Duration{}, packages: map[string]*state{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			o.says(key{}, lines.Text()+"\n") // the go command's own
			continue
		}
		out.follow(e, o)
	}
	return out, lines.Err()
}

func (out *outcome) follow(e event, o observer) {
	k := key{e.Package, e.Test}
	if k.pkg == "" {
		k.pkg = built(e.ImportPath)
	}
	p := out.packages[k.pkg]
	if p == nil {
		p = &state{output: map[string][]string{}, said: map[string]string{}}
		out.packages[k.pkg] = p
	}
	took := time.Duration(e.Elapsed * float64(time.Second))
	switch e.Action {
	case "run", "cont":
		o.running(k, true)
	case "pause": // until its turn among the parallel ones
		o.running(k, false)
	case "output", "build-output":
		p.add(k, strings.TrimRight(e.Output, "\n"))
		o.says(k, e.Output)
	case "pass", "fail", "skip":
		if k.test == "" {
			out.packageEnds(p, k, e)
			o.packageEnds(k.pkg, p, took)
			p.output = map[string][]string{}
			return
		}
		o.running(k, false)
		if f := out.testEnds(p, k, e.Action, took); f != nil {
			o.testFails(*f)
		}
	}
}

// built is the package of an import path: "p [p.test]" is p, compiled for its test.
func built(path string) string {
	path, _, _ = strings.Cut(path, " ")
	return path
}

// add keeps a line that a test printed.
func (p *state) add(k key, line string) {
	if strings.HasPrefix(line, "=== ") {
		return
	}
	top := k.top().test
	p.output[top] = append(p.output[top], line)
	switch {
	case k.test == "" && strings.Contains(line, "(cached)"):
		p.cached = true
	case located.MatchString(line):
		_, p.said[k.test], _ = strings.Cut(line, ": ")
	case p.said[k.test] != "" && strings.HasPrefix(line, "        "): // the message goes on
		p.said[k.test] += " " + strings.TrimSpace(line)
	}
}

// testEnds returns a top-level test that failed.
func (out *outcome) testEnds(p *state, k key, action string, took time.Duration) *failed {
	p.tests++
	if k.top() == k {
		out.times[k] = took
	}
	switch {
	case action == "pass":
		out.passed++
	case action == "skip":
		why := p.said[k.test]
		for _, prefix := range []string{"skipped: ", "SKIPPED: "} {
			why = strings.TrimPrefix(why, prefix)
		}
		out.skipped = append(out.skipped, skipped{k, why})
	case k.top() == k:
		output := p.output[k.test]
		f := failed{key: k, cause: cause(output), output: output, retry: !matched(output, raced) && !matched(output, broken)}
		p.failed = append(p.failed, f)
		return &f
	}
	return nil
}

func (out *outcome) packageEnds(p *state, k key, e event) {
	if e.Action == "fail" {
		whole := p.output[""]
		if dep := out.packages[built(e.FailedBuild)]; dep != nil {
			whole = dep.output[""]
		}
		for _, lines := range p.output {
			if matched(lines, broken) {
				// The process did not get to its end: what failed before it may follow from that.
				p.failed, whole = nil, lines
			}
		}
		if len(p.failed) == 0 {
			p.failed = []failed{{key: k, cause: cause(whole), output: whole}}
		}
		out.failed = append(out.failed, p.failed...)
	}
}

func matched(lines []string, r *regexp.Regexp) bool { return slices.ContainsFunc(lines, r.MatchString) }

// cause is the line that tells best what is wrong.
func cause(lines []string) string {
	for _, r := range []*regexp.Regexp{broken, located, something} {
		for _, line := range lines {
			if r.MatchString(line) && !titled.MatchString(line) && !strings.HasPrefix(strings.TrimSpace(line), "---") {
				return strings.TrimSpace(line)
			}
		}
	}
	return "it printed nothing"
}

// names is a regular expression that matches the tests alone; not ok when one of them is not
// to run again.
func names(list []failed) (expression string, ok bool) {
	var out []string
	for _, f := range list {
		if !f.retry {
			return "", false
		}
		out = append(out, regexp.QuoteMeta(f.test))
	}
	return strings.Join(out, "|"), true
}
