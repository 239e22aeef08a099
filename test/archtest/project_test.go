package archtest

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	makeTarget = regexp.MustCompile(`(?m)^((?:[a-z0-9-]+ ?)+):(?:[^=]|$)`)
	// makeCall is a call of make with what follows it, up to the end of the command.
	makeCall = regexp.MustCompile("(?m)(?:^|[\\s`(&|\"])make((?: +[^ \\n`;&|)]+)+)")
	aTarget  = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	aScript  = regexp.MustCompile(`(?:^|\s)(hack/[a-z-]+\.sh|\.ci/run)\b`)
)

// makeTargets are the targets of the Makefile.
func makeTargets(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(string(text), -1) {
		for name := range strings.FieldsSeq(m[1]) {
			out[name] = true
		}
	}
	if !out["test"] || !out["helm"] {
		t.Fatalf("the Makefile has the targets %v; its form must have changed", slices.Sorted(maps.Keys(out)))
	}
	return out
}

// notTargets are the targets that a piece of code gives to make and the Makefile lacks.
func notTargets(known map[string]bool, code string) []string {
	var out []string
	for _, m := range makeCall.FindAllStringSubmatch(code, -1) {
		for _, word := range strings.Fields(m[1]) {
			if word[0] == '-' {
				continue
			}
			if !aTarget.MatchString(word) {
				break // a variable, whose value may have spaces
			}
			if !known[word] {
				out = append(out, word)
			}
		}
	}
	return out
}

// TestMakeTargets checks that documents and scripts call targets that the Makefile has.
func TestMakeTargets(t *testing.T) {
	known := makeTargets(t)
	for name, d := range documents(t) {
		commands := slices.Clone(d.fences)
		for _, m := range codeSpan.FindAllStringSubmatch(d.prose, -1) {
			commands = append(commands, m[1])
		}
		for _, c := range commands {
			if c = strings.TrimPrefix(strings.TrimSpace(c), "$ "); !strings.HasPrefix(c, "make ") {
				continue
			}
			for _, target := range notTargets(known, c) {
				t.Errorf("%s: there is no target %q: %s", name, target, c)
			}
		}
	}
}

// workflow is as much of a GitHub workflow as is checked.
type workflow struct {
	Name        string            `json:"name"`
	On          map[string]any    `json:"true"` // "on" is a truth value in YAML 1.1
	Permissions map[string]string `json:"permissions"`
	Concurrency any               `json:"concurrency"`
	Env         map[string]string `json:"env"`
	Jobs        map[string]struct {
		Strategy struct {
			FailFast bool             `json:"fail-fast"`
			Matrix   map[string][]any `json:"matrix"`
		} `json:"strategy"`
		RunsOn  string            `json:"runs-on"`
		Timeout int               `json:"timeout-minutes"`
		Env     map[string]string `json:"env"`
		Steps   []struct {
			Name  string            `json:"name"`
			If    string            `json:"if"`
			Uses  string            `json:"uses"`
			With  map[string]any    `json:"with"`
			Env   map[string]string `json:"env"`
			Run   string            `json:"run"`
			Shell string            `json:"shell"`
		} `json:"steps"`
	} `json:"jobs"`
}

// TestWorkflows checks that workflows are valid, bounded in rights and time, and run what
// exists; and that one of them runs what .ci/run runs.
func TestWorkflows(t *testing.T) {
	known := makeTargets(t)
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	called := map[string]bool{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		name = filepath.Base(name)
		var w workflow
		if err := yaml.UnmarshalStrict(text, &w); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if w.Name == "" || len(w.On) == 0 || len(w.Permissions) == 0 || len(w.Jobs) == 0 {
			t.Errorf("%s: name, on, permissions or jobs are missing", name)
		}
		for id, job := range w.Jobs {
			if job.RunsOn == "" || job.Timeout == 0 || len(job.Steps) == 0 {
				t.Errorf("%s: job %s lacks runs-on, timeout-minutes or steps", name, id)
			}
			for _, step := range job.Steps {
				if (step.Uses == "") == (step.Run == "") {
					t.Errorf("%s: a step of job %s needs either uses or run", name, id)
				}
				if step.Uses != "" && !strings.Contains(step.Uses, "@v") {
					t.Errorf("%s: %s names no version", name, step.Uses)
				}
				for _, run := range expand(step.Run, job.Strategy.Matrix) {
					for _, target := range notTargets(known, run) {
						t.Errorf("%s: there is no target %q: %s", name, target, run)
					}
					for _, m := range makeCall.FindAllStringSubmatch(run, -1) {
						if name == "ci.yaml" {
							called[strings.Fields(m[1])[0]] = true
						}
					}
					for _, m := range aScript.FindAllStringSubmatch(run, -1) {
						if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
							t.Errorf("%s: %v", name, err)
						}
					}
				}
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	_, sets, ok := strings.Cut(string(text), "exec bin/testrun ")
	if !ok {
		t.Fatal(".ci/run does not end in exec bin/testrun; its form must have changed")
	}
	for set := range strings.FieldsSeq(sets) {
		if !called[set] {
			t.Errorf(".ci/run runs %s, and the workflow ci.yaml does not", set)
		}
	}
}

// expand is a command with each value of the matrix in it.
func expand(run string, matrix map[string][]any) []string {
	out := []string{run}
	for name, values := range matrix {
		place := "${{ matrix." + name + " }}"
		if !strings.Contains(run, place) {
			continue
		}
		var next []string
		for _, v := range values {
			for _, r := range out {
				text, _ := v.(string)
				next = append(next, strings.ReplaceAll(r, place, text))
			}
		}
		out = next
	}
	return out
}

// TestDependabot checks that the updates of dependencies know all modules of the repository.
func TestDependabot(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github", "dependabot.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Version int `json:"version"`
		Updates []struct {
			Ecosystem   string           `json:"package-ecosystem"`
			Directory   string           `json:"directory"`
			Directories []string         `json:"directories"`
			Schedule    map[string]any   `json:"schedule"`
			Groups      map[string]any   `json:"groups"`
			Ignore      []map[string]any `json:"ignore"`
		} `json:"updates"`
	}
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, u := range config.Updates {
		if u.Ecosystem == "gomod" {
			known = append(append(known, u.Directories...), u.Directory)
		}
	}
	known = slices.DeleteFunc(known, func(d string) bool { return d == "" })
	var modules []string
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if d.Name() == "go.mod" {
			rel, err := filepath.Rel(root, filepath.Dir(name))
			if err != nil {
				return err
			}
			modules = append(modules, "/"+strings.TrimPrefix(filepath.ToSlash(rel), "."))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(known)
	slices.Sort(modules)
	if !slices.Equal(known, modules) {
		t.Errorf("dependabot.yml names the modules %v; there are %v", known, modules)
	}
}

// TestIssueForms checks that the forms of issues are valid.
func TestIssueForms(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github", "ISSUE_TEMPLATE", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no forms: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		name = filepath.Base(name)
		if name == "config.yml" {
			var config struct {
				Blank bool                `json:"blank_issues_enabled"`
				Links []map[string]string `json:"contact_links"`
			}
			if err := yaml.UnmarshalStrict(text, &config); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var form struct {
			Name        string   `json:"name"`
			Description string   `json:"description"`
			Labels      []string `json:"labels"`
			Body        []struct {
				Type        string         `json:"type"`
				ID          string         `json:"id"`
				Attributes  map[string]any `json:"attributes"`
				Validations map[string]any `json:"validations"`
			} `json:"body"`
		}
		if err := yaml.UnmarshalStrict(text, &form); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s: name, description or body is missing", name)
		}
		for _, field := range form.Body {
			if field.Attributes["label"] == nil {
				t.Errorf("%s: a field has no label", name)
			}
		}
	}
}
