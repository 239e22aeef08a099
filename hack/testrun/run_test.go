package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// files is a small module whose packages pass, fail, are flaky and do not build.
var files = map[string]string{
	"go.mod": "module example.org/m\n\ngo 1.26\n",
	"good/good_test.go": `package good
import "testing"
func TestGood(t *testing.T) { t.Run("part", func(t *testing.T) { t.Skip("skipped: no device here") }) }
func TestLong(t *testing.T) { t.Skip("skipped: two lines:\nthe second") }
`,
	"flaky/flaky_test.go": `package flaky
import ("os"; "testing")
func TestFlaky(t *testing.T) {
	if _, err := os.Stat("seen"); err != nil {
		_ = os.WriteFile("seen", nil, 0o600)
		t.Log("etcd:")
		t.Fatal("the lease was lost")
	}
}
func TestSteady(t *testing.T) {}
`,
	"bad/bad_test.go": `package bad
import "testing"
func TestBad(t *testing.T) { t.Run("case", func(t *testing.T) { t.Error("got 1, want 2") }) }
`,
	"panics/panics_test.go": `package panics
import "testing"
func TestPanics(t *testing.T) { var m map[string]int; m["a"] = 1 }
`,
	"nobuild/nobuild.go": "package nobuild\n\nfunc f() int { return undefined }\n",
	"nobuild/nobuild_test.go": `package nobuild
import "testing"
func TestNothing(t *testing.T) {}
`,
}

// module writes the files into a folder and works there.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-mod=mod -buildvcs=false")
	t.Setenv("CI", "")
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var times = regexp.MustCompile(`\d+:\d\d([ \n])`)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		stages []stage
		flags  []string
		ok     bool
		// table is the end, without times; shown and hidden are in the output before it, or not.
		table         string
		shown, hidden []string
	}{{
		name:   "passes, with what is skipped",
		stages: []stage{{name: "unit", tests: &tests{packages: []string{"./good"}}}},
		ok:     true,
		table: `
stage      result      time   tests
unit       passed      M:SS       3
  skipped  example.org/m/good TestGood/part: no device here
  skipped  example.org/m/good TestLong: two lines: the second
total      passed      M:SS
passed: 1 passed, 0 failed, 2 skipped
`,
	}, {
		name:   "a flaky test does not fail the run, and does not look like it",
		stages: []stage{{name: "e2e", tests: &tests{packages: []string{"./flaky"}, again: true, cluster: true}}},
		ok:     true,
		table: `
stage      result      time   tests
e2e        passed      M:SS       2
  flaky    example.org/m/flaky TestFlaky passed when run again; at first: flaky_test.go:7: the lease was lost
total      passed      M:SS
passed: 2 passed, 0 failed, 0 skipped
`,
		shown:  []string{"once   example.org/m/flaky TestFlaky", "again  example.org/m/flaky TestFlaky"},
		hidden: []string{"FAIL"},
	}, {
		name:   "without again it fails at once",
		stages: []stage{{name: "unit", tests: &tests{packages: []string{"./flaky"}}}},
		table: `
stage      result      time   tests
unit       failed      M:SS       2
  failed   example.org/m/flaky TestFlaky: flaky_test.go:7: the lease was lost
total      failed      M:SS
failed: 1 passed, 1 failed, 0 skipped
`,
		shown: []string{"FAIL   example.org/m/flaky TestFlaky", "       |     flaky_test.go:6: etcd:"},
	}, {
		name: "a test that fails twice fails the run; the next stage runs all the same",
		stages: []stage{
			{name: "e2e", tests: &tests{packages: []string{"./bad"}, again: true, cluster: true}},
			{name: "more", tests: &tests{packages: []string{"./good"}, only: "TestGood"}},
		},
		table: `
stage      result      time   tests
e2e        failed      M:SS       1
  failed   example.org/m/bad TestBad: bad_test.go:3: got 1, want 2
more       passed      M:SS       2
  skipped  example.org/m/good TestGood/part: no device here
total      failed      M:SS
failed: 1 passed, 1 failed, 1 skipped
`,
	}, {
		name:   "a panic does not run again",
		stages: []stage{{name: "e2e", tests: &tests{packages: []string{"./panics"}, again: true, cluster: true}}},
		table: `
stage      result      time   tests
e2e        failed      M:SS       1
  failed   example.org/m/panics: panic: assignment to entry in nil map [recovered, repanicked]
total      failed      M:SS
failed: 0 passed, 1 failed, 0 skipped
`,
		hidden: []string{"once  ", "again  "},
	}, {
		name:   "neither does what does not build",
		stages: []stage{{name: "e2e", tests: &tests{packages: []string{"./nobuild"}, again: true, cluster: true}}},
		table: `
stage      result      time   tests
e2e        failed      M:SS       1
  failed   example.org/m/nobuild: nobuild/nobuild.go:3:23: undefined: undefined
total      failed      M:SS
failed: 0 passed, 1 failed, 0 skipped
`,
		hidden: []string{"once  ", "again  "},
	}, {
		name: "what needs a stage that failed does not run",
		stages: []stage{
			{name: "build-all", commands: [][]string{{"sh", "-c", "echo no compiler; exit 3"}}},
			{name: "others", needs: []string{"build-all"}, tests: &tests{packages: []string{"./good"}}},
		},
		table: `
stage      result      time   tests
build-all  failed      M:SS
  note     sh -c echo no compiler; exit 3: exit status 3
others     not run
  because  build-all failed
total      failed      M:SS
failed: 0 passed, 0 failed, 0 skipped
`,
		shown: []string{"no compiler"},
	}, {
		name:   "flags reach go test",
		stages: []stage{{name: "unit", tests: &tests{packages: []string{"./flaky"}}}},
		flags:  []string{"-run", "Steady", "-v"},
		ok:     true,
		table: `
stage      result      time   tests
unit       passed      M:SS       1
total      passed      M:SS
passed: 1 passed, 0 failed, 0 skipped
`,
		shown: []string{"--- PASS: TestSteady"},
	}, {
		name:   "a flag that go test does not have",
		stages: []stage{{name: "unit", tests: &tests{packages: []string{"./good"}}}},
		flags:  []string{"-no-such-flag"},
		table: `
stage      result      time   tests
unit       failed      M:SS       1
  failed   example.org/m/good: flag provided but not defined: -no-such-flag
total      failed      M:SS
failed: 0 passed, 1 failed, 0 skipped
`,
	}, {
		name:   "a package that does not exist",
		stages: []stage{{name: "unit", tests: &tests{packages: []string{"./gone"}}}},
		table: `
stage      result      time   tests
unit       failed      M:SS       1
  failed   ./gone: stat DIR/gone: directory not found
total      failed      M:SS
failed: 0 passed, 1 failed, 0 skipped
`,
	}} {
		t.Run(c.name, func(t *testing.T) {
			dir := module(t)
			var out strings.Builder
			r := &runner{out: &out, flags: c.flags, log: "bin/log"}
			if err := r.prepare(); err != nil {
				t.Fatal(err)
			}
			got, ok := table(r.all(t.Context(), c.stages), time.Second)
			if ok != c.ok {
				t.Errorf("ok is %t", ok)
			}
			if got = "\n" + strings.ReplaceAll(times.ReplaceAllString(got, "M:SS$1"), dir, "DIR"); got != c.table {
				t.Errorf("the table is%s\nwant%s\nafter\n%s", got, c.table, out.String())
			}
			for _, text := range c.shown {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%q is not in\n%s", text, out.String())
				}
			}
			for _, text := range c.hidden {
				if strings.Contains(out.String(), text) {
					t.Errorf("%q is in\n%s", text, out.String())
				}
			}
		})
	}
}

// TestLanes: stages of two lanes meet, and a stage without a lane runs when both have ended.
func TestLanes(t *testing.T) {
	module(t)
	meet := func(own, other string) [][]string {
		return [][]string{{"sh", "-c", "touch " + own + "; n=0; while [ ! -e " + other + " ]; do n=$((n+1)); [ $n -lt 200 ] || exit 1; sleep 0.05; done; touch " + own + ".met"}}
	}
	var out strings.Builder
	r := &runner{out: &out, log: "bin/log"}
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	text, ok := table(r.all(t.Context(), []stage{
		{name: "units", lane: "a", commands: meet("a", "b")},
		{name: "clusters", lane: "b", commands: meet("b", "a")},
		{name: "alone", commands: [][]string{{"sh", "-c", "[ -e a.met ] && [ -e b.met ]"}}},
	}), time.Second)
	if !ok {
		t.Errorf("%s\n%s", out.String(), text)
	}
}
