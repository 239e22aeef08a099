package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const repository = "../.."

// testFiles are the test files of the repository by folder ("./core/model").
func testFiles(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := filepath.WalkDir(repository, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != repository {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if base := d.Name(); base == "testdata" || base == "bin" || base[0] == '.' || base[0] == '_' || !errors.Is(err, fs.ErrNotExist) {
				return fs.SkipDir
			}
		}
		if strings.HasSuffix(name, "_test.go") {
			rel, err := filepath.Rel(repository, filepath.Dir(name))
			if err != nil {
				return err
			}
			folder := "./" + filepath.ToSlash(rel)
			out[folder] = append(out[folder], name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func covers(pattern, folder string) bool {
	above, all := strings.CutSuffix(pattern, "/...")
	return folder == above || all && strings.HasPrefix(folder, above+"/")
}

// TestEveryPackage checks that make test and make test-all leave no package out, and that no
// test runs in two stages.
func TestEveryPackage(t *testing.T) {
	folders := testFiles(t)
	if len(folders) < 50 {
		t.Fatalf("%d folders with tests", len(folders))
	}
	for folder := range folders {
		var in []string
		for _, s := range stages() {
			if s.tests != nil && slices.ContainsFunc(s.tests.packages, func(p string) bool { return covers(p, folder) }) {
				in = append(in, s.name)
			}
		}
		switch {
		case len(in) == 0:
			t.Errorf("%s is in no stage: stages.go must name it", folder)
		case len(in) > 1 && folder != "./test/e2e" && folder != "./test/state" && folder != "./internal/agent/publish":
			t.Errorf("%s is in the stages %v; one is right", folder, in)
		}
	}
	for _, s := range stages() {
		if s.tests == nil {
			continue
		}
		for _, p := range s.tests.packages {
			found := false
			for folder := range folders {
				found = found || covers(p, folder)
			}
			if !found {
				t.Errorf("stage %s: %s has no tests, or is gone", s.name, p)
			}
		}
	}
}

// TestOnce checks that the stages that share test/e2e and test/state divide it: every test
// runs in one of them, and the tests that stages.go names exist.
func TestOnce(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	var all []string
	files := testFiles(t)
	for _, folder := range []string{"./test/e2e", "./test/state"} {
		for _, name := range files[folder] {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
				all = append(all, m[1])
				n := 0
				for _, s := range stages() {
					if s.tests == nil || !slices.Contains(s.tests.packages, folder+"/...") {
						continue
					}
					if match(s.tests.only, m[1], true) && !match(s.tests.except, m[1], false) {
						n++
					}
				}
				if n != 1 {
					t.Errorf("%s of %s runs in %d stages", m[1], folder, n)
				}
			}
		}
	}
	for name := range strings.SplitSeq(measuring, "|") {
		if !slices.Contains(all, name) {
			t.Errorf("measuring names %s, which does not exist", name)
		}
	}
}

func match(expression, name string, empty bool) bool {
	if expression == "" {
		return empty
	}
	return regexp.MustCompile("^(" + expression + ")$").MatchString(name)
}

func TestChoose(t *testing.T) {
	for _, c := range []struct{ name, args, flags, want, wantError string }{
		{name: "a stage brings what it needs", args: "scenario", want: "build scenario"},
		{name: "a set", args: "test", want: "lint build unit race scenario e2e"},
		{name: "both sets are everything", args: "test test-all", want: "lint build unit race scenario e2e golangci build-all measured chaos holes others"},
		{name: "with -run a package runs once", args: "test test-all", flags: "-run TestJobs", want: "lint build unit race scenario e2e golangci build-all chaos others"},
		{name: "unknown", args: "units", wantError: `there is no stage or set "units"`},
		{name: "nothing", wantError: "no stage is named"},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, err := choose(strings.Fields(c.args), strings.Fields(c.flags))
			if c.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantError) {
					t.Errorf("error %v, want %q", err, c.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range list {
				got = append(got, s.name)
				if c.flags != "" && s.tests != nil && s.tests.only+s.tests.except != "" {
					t.Errorf("%s keeps its own choice of tests", s.name)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}
